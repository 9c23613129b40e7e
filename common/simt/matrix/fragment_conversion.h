#pragma once

#include "common/simt/matrix/fragments.h"

namespace simt {
inline namespace SIMT_NAMESPACE {

/// Two neighbouring accumulators [16, 8 + 8], rounded to T, as the operand A [16, 16] of the next product. Every lane
/// already holds the elements that it needs, so this takes four conversions and no exchange between lanes:
///
///     O += P V      simt::mma_m16n8k16(O, simt::to_a<T>(P_left, P_right), V_fragment);
template <class T>
__device__ __forceinline__ FragmentA<T> to_a(const FragmentC& left, const FragmentC& right) {
    return {{pack<T>(left.element[0], left.element[1]), pack<T>(left.element[2], left.element[3]),
             pack<T>(right.element[0], right.element[1]), pack<T>(right.element[2], right.element[3])}};
}

}  // namespace SIMT_NAMESPACE
}  // namespace simt
