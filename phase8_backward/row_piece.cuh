#pragma once

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

inline constexpr int kRowThreads = 128;  ///< of a block of a kernel whose threads have pieces of rows

/// Which row, and which eight columns of it, the thread has: 16 bytes of 16-bit numbers. Neighbours share a row.
template <int D>
struct RowPiece {
    static constexpr int lanes = D <= 64 ? 8 : D <= 128 ? 16 : 32;  ///< of a row, a power of 2
    static constexpr int rows = kRowThreads / lanes;                ///< of a block
    /// The row, which may lie past the end.
    int row = int(blockIdx.x * rows + threadIdx.x / lanes);
    /// The first of the columns, which may lie past the end, too.
    int column = int(threadIdx.x % lanes * 8);
};

}  // namespace ladder::SIMT_MACHINE
