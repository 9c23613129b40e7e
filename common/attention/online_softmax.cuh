#pragma once

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// The number to subtract from scores whose running maximum is `m`: m itself, or 0 where m is infinite, so that
/// inf - inf is never computed. With 0, a row that has seen only -inf keeps its sums at exp(-inf) = 0, and a score of
/// +inf makes the sum infinite: the row becomes inf / inf = NaN and its log-sum-exp +inf, as softmax has it.
__device__ inline float safe_maximum(float m) { return fabsf(m) == INFINITY ? 0.0f : m; }

}  // namespace ladder::SIMT_MACHINE
