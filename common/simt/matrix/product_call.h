#pragma once

#include <cstdint>

#include "common/simt/language/element_type.h"
#include "common/simt/machine/block.h"
#include "common/simt/matrix/operand_check.h"
#include "common/simt/matrix/product_registers.h"

namespace simt {
inline namespace cpu {

/// What a multiply() multiplies: D [64, n] += A [64, depth] B [depth, n].
struct ProductShape {
    ElementType type;  ///< of A and B
    int n;
    bool a_in_registers;
    Major a_major;  ///< where A lies in shared memory
    Major b_major;

    int bytes() const { return int(element_bytes(type)); }
    int depth() const { return kProductBytes / bytes(); }
    OperandShape of_a() const { return {a_major, kProductRows, bytes()}; }
    OperandShape of_b() const { return {b_major, n, bytes()}; }
};

/// An operand in shared memory, as a thread passes it.
struct PassedOperand {
    std::uint64_t bits = 0;
    OperandPlace place{};
};

/// What a thread hands to multiply(). The notes are those of the checked machine, null on the other.
struct ProductCall {
    const ProductShape* shape;
    float* d;  ///< its n / 2 elements
    AccumulatorRegisters* accumulator = nullptr;
    const std::uint32_t* a_registers = nullptr;  ///< four; null: A lies in shared memory
    const OperandRegisters* a_notes = nullptr;
    PassedOperand a{}, b{};
    bool accumulate;
    SourceSite site;
};

/// The running thread's part in a product that is done when all have arrived: what the machine without checks does.
void multiply_now(const ProductCall& call, const Block::WarpgroupInstruction& product);

/// The whole warpgroup multiplies, at once.
void multiply_at_once(Block&, int warpgroup, const std::array<const void*, kWarpgroup>& calls);

/// The whole warpgroup multiplies; the result comes with the wait.
void begin_multiply(Block&, int warpgroup, const std::array<const void*, kWarpgroup>& calls);

/// wgmma.mma_async of one shape: one instruction, as the machine tells them apart.
template <ElementType type, int n, bool a_in_registers, Major a_major, Major b_major>
struct ProductOf {
    static constexpr ProductShape shape{type, n, a_in_registers, a_major, b_major};
    static constexpr Block::WarpgroupInstruction at_once{"wgmma.mma_async", multiply_at_once};
    static constexpr Block::WarpgroupInstruction begun{"wgmma.mma_async", begin_multiply};
};

}  // namespace cpu
}  // namespace simt
