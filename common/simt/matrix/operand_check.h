#pragma once

#include <cstdint>

#include "common/simt/machine/block.h"
#include "common/simt/matrix/operand_pieces.h"

namespace simt {
inline namespace cpu {

/// What a descriptor was made of, if a typed function made it: a place in a tile, or in some rows of one.
struct OperandPlace {
    const char* tile = nullptr;  ///< its name; null: nobody vouches for the bits
    int first_row = 0;           ///< of the rows in the tile that was carved
    int rows = 0, columns = 0;   ///< how many
    int row = 0, column = 0;     ///< where the operand begins in them
};

/// An operand of one product.
struct OperandUse {
    const char* name;  ///< "A" or "B"
    std::uint64_t bits;
    OperandShape shape;
    OperandPlace place;
    int thread;  ///< who speaks for the warpgroup
    SourceSite site;
};

/// Diagnoses a descriptor that does not describe a part of the tile at its address. Once it returns, every piece of the
/// operand is one of that tile, unless the machine is lenient.
void check_operand(Block& block, const OperandUse& use);

/// Diagnoses the row and the column at which k_major() or mn_major() is asked to begin.
struct OperandStart {
    Major major;
    OperandPlace place;
    int panel_columns, element_bytes;
};
void check_operand_start(const OperandStart& start, SourceSite site);

}  // namespace cpu
}  // namespace simt
