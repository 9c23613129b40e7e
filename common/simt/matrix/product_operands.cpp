#include "common/simt/matrix/product_operands.h"

#include <cstring>

namespace simt {
inline namespace cpu {
namespace {

/// [rows, columns] to [columns, rows]
void transpose(const float* from, int rows, int columns, float* to) {
    for (int r = 0; r < rows; ++r)
        for (int c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
}

/// The warp that reads a piece of A: the one whose rows of the accumulator it makes. All of them read all of B.
int reading_warp(const OperandPiece& piece, const OperandShape& shape) {
    return (shape.major == Major::k ? piece.row : piece.column) / 16;
}

/// Which thread of the warpgroup stands for those that must know of a piece. Whoever has not waited for what wrote a
/// tile knows of none of its pieces: so each is asked of one thread, and of a tile every thread is asked for some.
int knower(const OperandPiece& piece, const OperandShape& shape, bool is_a, int number) {
    if (!is_a) return number * 37 % kWarpgroup;
    return reading_warp(piece, shape) * 32 + number * 5 % 32;
}

}  // namespace

void ProductOperands::load(Block& block, const ProductCalls& calls, const OperandReader* reader) {
    const ProductCall& call = *calls[0];
    const ProductShape& shape = *call.shape;
    const int depth = shape.depth(), n = shape.n;

    if (shape.a_in_registers)
        load_registers(calls);
    else
        load_shared(block, call.a, shape.of_a(), true, reader, call.site);
    const bool a_lies_down = !shape.a_in_registers && shape.a_major == Major::mn;
    convert_elements(shape.type, bits_.data(), std::size_t(kProductRows * depth),
                     a_lies_down ? values_.data() : a_.data());
    if (a_lies_down) transpose(values_.data(), depth, kProductRows, a_.data());

    load_shared(block, call.b, shape.of_b(), false, reader, call.site);
    const bool b_lies_down = shape.b_major == Major::k;
    convert_elements(shape.type, bits_.data(), std::size_t(n * depth), b_lies_down ? values_.data() : b_.data());
    if (b_lies_down) transpose(values_.data(), n, depth, b_.data());
}

/// Of 16-bit elements as FragmentA deals them out to each warp; of 8-bit ones there are four where two would be (PTX
/// ISA, "Register Fragments for wgmma.mma_async.m64nNk32"). In bytes both are the same.
void ProductOperands::load_registers(const ProductCalls& calls) {
    for (int thread = 0; thread < kWarpgroup; ++thread)
        for (int r = 0; r < 4; ++r) {
            const int row = thread / 32 * 16 + thread % 32 / 4 + r % 2 * 8, byte = thread % 4 * 4 + r / 2 * 16;
            std::memcpy(bits_.data() + row * kProductBytes + byte, calls[std::size_t(thread)]->a_registers + r, 4);
        }
}

void ProductOperands::load_shared(Block& block, const PassedOperand& operand, const OperandShape& shape, bool is_a,
                                  const OperandReader* reader, SourceSite site) {
    int number = 0;
    const auto element = std::size_t(shape.element_bytes);
    for_each_piece(MatrixDescriptor::from_bits(operand.bits), shape, [&](const OperandPiece& piece) {
        std::byte* const to = bits_.data() + piece.row * shape.row_bytes() + std::size_t(piece.column) * element;
        const int i = number++;
        if (piece.address + 16 > block.shared.bytes()) [[unlikely]] {
            std::memset(to, 0xff, 16);  // no tile has it; the check has said so, unless there is none
            return;
        }
        if (reader) {
            const int first = reader->warpgroup * kWarpgroup;
            const int agent = is_a ? reader->first_agent + reading_warp(piece, shape) : reader->all_agents;
            block.shared.read_by_agent(piece.address, 16, element, first + knower(piece, shape, is_a, i), agent,
                                       reader->interval, site);
            block.traffic.product_operand(piece.address, 16, first + i % kWarpgroup, site);
        }
        std::memcpy(to, block.shared.data() + piece.address, 16);
    });
}

}  // namespace cpu
}  // namespace simt
