#pragma once

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// Where column `column` of row `row` lies in a swizzled tile of 16-bit elements, D to a row and without padding:
/// pieces of eight elements change places within their row. Eight rows that are read at one column, as ldmatrix does,
/// then lie in different banks. Rows of 64 elements begin in the same bank: all eight pieces of 128 bytes are
/// exchanged. Of other rows, 32 elements or 96, every second one does, and the rows between begin 64 bytes further:
/// pieces are exchanged by fours.
template <int D>
__device__ __forceinline__ int swizzled(int row, int column) {
    static_assert(D % 32 == 0, "rows of whole groups of four pieces");
    return column ^ (D % 64 == 0 ? row % 8 : row / 2 % 4) * 8;
}

}  // namespace ladder::SIMT_MACHINE
