#pragma once

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// Where column `column` of row `row` lies in a swizzled tile of 16-bit elements, D to a row and without padding. Eight
/// rows that are read at one column, as ldmatrix does, then lie in different banks: 128 bytes hold a row of 64 elements
/// or two of 32, whose pieces of eight are exchanged.
template <int D>
__device__ __forceinline__ int swizzled(int row, int column) {
    return column ^ (D >= 64 ? row % 8 : row / 2 % 4) * 8;
}

}  // namespace ladder::SIMT_MACHINE
