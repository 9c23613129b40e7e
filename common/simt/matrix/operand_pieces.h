#pragma once

#include <cstdint>

#include "common/simt/language/cuda_names.h"
#include "common/simt/matrix/matrix_descriptor.h"
#include "common/simt/matrix/product_arithmetic.h"
#include "common/simt/matrix/warpgroup.h"

namespace simt {
inline namespace cpu {

/// What an instruction takes from shared memory as A or B: `extent` rows of A or columns of B, by 32 bytes of k.
struct OperandShape {
    Major major;
    int extent;
    int element_bytes;

    int depth() const { return kProductBytes / element_bytes; }
    int pieces() const { return extent * kProductBytes / 16; }
    /// Elements next to each other, as they are read: along k, or along the other dimension.
    int row_bytes() const { return major == Major::k ? kProductBytes : extent * element_bytes; }
};

/// A piece of 16 bytes of an operand.
struct OperandPiece {
    std::uint32_t address;  ///< in shared memory, as the descriptor's bits give it
    int row, column;        ///< of its first element in the operand, counted as its tile counts: k-major rows are those
                            ///< of A or columns of B, mn-major ones are k
};

/// Calls use(piece) for every piece of an operand, where the hardware finds it: bits are added up as the PTX ISA has
/// the canonical layouts ("Shared Memory Matrix Layout", "Strides"), then the swizzle exchanges bits of the sum. Eight
/// pieces in a row are the rows of an 8x8 core matrix.
template <class Use>
void for_each_piece(const MatrixDescriptor& descriptor, const OperandShape& shape, Use&& use) {
    const unsigned span = swizzle_span(descriptor.swizzle), exchanged = swizzle_bits(descriptor.swizzle);
    const int per_piece = 16 / shape.element_bytes;
    const auto piece = [&](unsigned offset, int row, int column) {
        const std::uint32_t sum = (descriptor.address + offset) & 0x3ffff;
        use(OperandPiece{sum ^ (((sum >> 3) - (descriptor.base_offset << 4)) & exchanged), row, column});
    };
    if (shape.major == Major::k) {
        const unsigned next_row = span ? span : 16, next_piece = span ? 16 : descriptor.leading;
        for (int row = 0; row < shape.extent; row += 8)
            for (int p = 0; p < 2; ++p)
                for (int r = 0; r < 8; ++r)
                    piece(unsigned(row / 8) * descriptor.stride + unsigned(r) * next_row + unsigned(p) * next_piece,
                          row + r, p * per_piece);
        return;
    }
    const int in_atom = span ? int(span) / 16 : 1;
    const unsigned next_k = span ? span : 16, next_group = span ? descriptor.stride : descriptor.leading,
                   next_atom = span ? descriptor.leading : descriptor.stride;
    for (int k = 0; k < shape.depth(); k += 8)
        for (int p = 0; p < shape.extent / per_piece; ++p)
            for (int r = 0; r < 8; ++r)
                piece(unsigned(k / 8) * next_group + unsigned(r) * next_k + unsigned(p / in_atom) * next_atom +
                          unsigned(p % in_atom) * 16,
                      k + r, p * per_piece);
}

}  // namespace cpu
}  // namespace simt
