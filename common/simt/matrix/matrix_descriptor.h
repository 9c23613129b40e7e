#pragma once

// How wgmma is told where an operand lies in shared memory, for all machines.

#include <cstdint>

#include "common/simt/language/swizzle.h"
#if !defined(__CUDACC__)
#include "common/simt/language/cuda_names.h"
#endif

namespace simt {

/// What the 64 bits of a matrix descriptor say, in bytes where the bits count in units of 16 (PTX ISA, "Matrix
/// Descriptor Format" and "Strides"). An operand is made of atoms: eight rows of the swizzle's span. One whose k runs
/// along the rows has its 32 bytes of k inside of these; one whose k runs down them has eight k in each.
struct MatrixDescriptor {
    std::uint32_t address;  ///< bits 0 to 13: where the first element would lie without a swizzle
    std::uint32_t leading;  ///< bits 16 to 29: k-major: unused; mn-major: from one panel to the next
    std::uint32_t stride;   ///< bits 32 to 45: from one group of eight rows to the next
    unsigned base_offset;   ///< bits 49 to 51: of a pattern that does not begin at a multiple of its size; 0 for tiles
    Swizzle swizzle;        ///< bits 62 and 63: 0 none, 1 for 128 bytes, 2 for 64, 3 for 32

    /// What such bits say.
    __host__ __device__ static constexpr MatrixDescriptor from_bits(std::uint64_t bits) {
        const unsigned mode = unsigned(bits >> 62);
        return {std::uint32_t(bits & 0x3fff) * 16, std::uint32_t(bits >> 16 & 0x3fff) * 16,
                std::uint32_t(bits >> 32 & 0x3fff) * 16, unsigned(bits >> 49 & 7),
                mode == 0   ? Swizzle::none
                : mode == 1 ? Swizzle::b128
                : mode == 2 ? Swizzle::b64
                            : Swizzle::b32};
    }

    /// The bits that say this.
    __host__ __device__ constexpr std::uint64_t bits() const {
        return std::uint64_t(address / 16 & 0x3fff) | std::uint64_t(leading / 16 & 0x3fff) << 16 |
               std::uint64_t(stride / 16 & 0x3fff) << 32 | std::uint64_t(base_offset & 7) << 49 |
               mode_of(swizzle) << 62;
    }

    /// What bits 62 and 63 are for a swizzle.
    __host__ __device__ static constexpr std::uint64_t mode_of(Swizzle swizzle) {
        return swizzle == Swizzle::none ? 0 : 4 - std::uint64_t(swizzle);
    }
};

/// The descriptor of the element (row, column) of a panel tile and what follows it, for an operand of either kind.
/// `address`: the tile's in shared memory. Sums are of units of 16 bytes, so that where row and column are constants,
/// nothing but the tile's own address is left to add.
template <class Tile>
__host__ __device__ constexpr std::uint64_t descriptor_of(std::uint32_t address, int row, int column) {
    static_assert(Tile::swizzle != Swizzle::none, "operands of products lie in swizzled panels");
    constexpr int element = int(sizeof(typename Tile::Element)), span = Tile::row_bytes;
    constexpr std::uint32_t high = std::uint32_t(MatrixDescriptor::mode_of(Tile::swizzle)) << 30 | 8 * span / 16;
    const std::uint32_t place = address / 16 + std::uint32_t(row * (span / 16)) +
                                std::uint32_t(column / Tile::panel_columns * (Tile::panel_stride / 16)) +
                                std::uint32_t(column % Tile::panel_columns * element / 16);
    return std::uint64_t{high} << 32 | (place + (std::uint32_t(Tile::panel_stride / 16) << 16));
}

static_assert(MatrixDescriptor::from_bits(MatrixDescriptor{1024, 16384, 1024, 0, Swizzle::b128}.bits()).leading ==
              16384);
static_assert(MatrixDescriptor{0, 0, 0, 0, Swizzle::b128}.bits() == std::uint64_t{1} << 62);
static_assert(MatrixDescriptor{0, 0, 0, 0, Swizzle::b32}.bits() == std::uint64_t{3} << 62);
static_assert(MatrixDescriptor{1024, 16, 512, 5, Swizzle::b64}.bits() ==
              (64 | std::uint64_t{1} << 16 | std::uint64_t{32} << 32 | std::uint64_t{5} << 49 |
               std::uint64_t{2} << 62));

}  // namespace simt
