#pragma once

#include <cstdint>

#include "common/simt/machine/block.h"
#include "common/simt/matrix/matrix_descriptor.h"
#include "common/simt/matrix/operand_check.h"
#include "common/simt/matrix/warpgroup.h"

// Operands in shared memory on the CPU machine, checked or not. What they are is documented with the GPU's version, in
// wgmma_cuda.h. Addresses are those in the block's shared memory, which begins at 0.

namespace simt {
inline namespace cpu {

/// See simt::cuda::MatrixOperand. The machine decodes the bits, as the hardware does; what they were made of serves its
/// messages alone.
template <class T, Major major>
class MatrixOperand {
  public:
    MatrixOperand(std::uint64_t bits, const OperandPlace& place) : bits_(bits), place_(place) {}
    std::uint64_t bits() const { return bits_; }
    static MatrixOperand from_bits(std::uint64_t bits) { return {bits, {}}; }

    const OperandPlace& place() const { return place_; }

  private:
    std::uint64_t bits_;
    OperandPlace place_;
};

/// The operand that begins at an element of a tile; looked at if the tile is a checked one, which knows its name.
template <Major major, class Tile>
MatrixOperand<typename Tile::Element, major> operand_at(const Tile& tile, int row, int column, SourceSite site) {
    static_assert(Tile::swizzle != Swizzle::none, "operands of products lie in swizzled panels");
    OperandPlace place;
    if constexpr (requires { tile.name(); }) {
        place = {tile.name(), tile.first_row(), Tile::rows(), Tile::columns(), row, column};
        check_operand_start({major, place, Tile::panel_columns, int(sizeof(typename Tile::Element))}, site);
    }
    const auto address = std::uint32_t(Block::current().shared.offset_of(tile.data()));
    return {descriptor_of<Tile>(address, row, column), place};
}

/// See simt::cuda::k_major.
template <class Tile>
auto k_major(const Tile& tile, int row, int column, SourceSite site = SourceSite::here()) {
    return operand_at<Major::k>(tile, row, column, site);
}

/// See simt::cuda::mn_major.
template <class Tile>
auto mn_major(const Tile& tile, int row, int column, SourceSite site = SourceSite::here()) {
    static_assert(sizeof(typename Tile::Element) == 2, "8-bit operands are k-major");
    return operand_at<Major::mn>(tile, row, column, site);
}

}  // namespace cpu
}  // namespace simt
