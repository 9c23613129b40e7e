#pragma once

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// Where a piece, eight elements or 16 bytes, lies in a tile whose rows have `Pieces` of them: which of the tile's
/// places, counted from its beginning, has piece `piece` of row `row`. Each place has one piece, and none lies outside
/// of the tile. Everyone who writes or reads a piece asks here.
template <int Pieces>
__device__ __forceinline__ int place_of(int row, int piece) {
    static_assert(Pieces == 4 || Pieces == 8, "head dimensions 32 and 64");
    // BEGIN SOLUTION places: a place for each piece, so that eight rows' pieces of one number lie in different banks
    const int exchanged = Pieces == 8 ? row % 8 : row / 2 % 4;
    return row * Pieces + (piece ^ exchanged);
    //= return row * Pieces + piece;
    // END SOLUTION places
}

}  // namespace ladder::SIMT_MACHINE
