#pragma once

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// What a part of a row counts for in the whole: exp(part - whole), where `whole` is the maximum over all parts.
///
/// The same rule serves a warp's old and new sums, the warps of a block (both by their m) and the splits of a row (by
/// their LSE). Equality is asked first, so that inf - inf is never computed: where all parts are -inf each counts once,
/// and the 0 or NaN in them stays what it is.
__device__ __forceinline__ float merge_weight(float part, float whole) {
    return __expf(part == whole ? 0.0f : part - whole);
}

}  // namespace ladder::SIMT_MACHINE
