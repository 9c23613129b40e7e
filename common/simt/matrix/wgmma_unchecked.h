#pragma once

#include <cstdint>

#include "common/simt/language/cuda_names.h"
#include "common/simt/matrix/matrix_instructions.h"
#include "common/simt/matrix/matrix_operand_cpu.h"
#include "common/simt/matrix/product_call.h"
#include "common/simt/matrix/product_element.h"
#include "common/simt/matrix/warpgroup.h"

// Products of a warpgroup without checks: registers are bare, and a product is done when multiply() returns. What is
// here is documented with the GPU's version, in wgmma_cuda.h.

namespace simt {
inline namespace unchecked {

/// See simt::cuda::Accumulator.
template <int N>
class Accumulator : public AccumulatorLayout {
  public:
    static_assert(N % 8 == 0 && 8 <= N && N <= 256, "wgmma has columns by eights, up to 256");
    static constexpr int size = N / 2;

    float& operator[](int i) { return elements_[i]; }
    float operator[](int i) const { return elements_[i]; }

  private:
    float elements_[size];
};

/// See simt::cuda::OperandA.
template <class T>
class OperandA {
  public:
    void set(int r, std::uint32_t bits) { registers_[r] = bits; }
    std::uint32_t operator[](int r) const { return registers_[r]; }
    const std::uint32_t* registers() const { return registers_; }

  private:
    std::uint32_t registers_[4];
};

/// See simt::cuda::to_operand.
template <class T, int N>
OperandA<T> to_operand(const Accumulator<N>& s, int k) {
    static_assert(sizeof(T) == 2, "8-bit operands want four neighbours to a thread: they are not the accumulator's");
    OperandA<T> operand;
    for (int r = 0; r < 4; ++r) operand.set(r, pack<T>(s[8 * k + 2 * r], s[8 * k + 2 * r + 1]));
    return operand;
}

/// See simt::cuda::begin_products.
template <class... Registers>
void begin_products(Registers&...) {}

/// See simt::cuda::multiply.
template <int N, class T, Major a_major, Major b_major>
void multiply(Accumulator<N>& d, const MatrixOperand<T, a_major>& a, const MatrixOperand<T, b_major>& b,
              bool accumulate, SourceSite site = SourceSite::here()) {
    using Product = ProductOf<element_type_of_product<T>, N, false, a_major, b_major>;
    const ProductCall call{.shape = &Product::shape,
                           .d = &d[0],
                           .a = {.bits = a.bits()},
                           .b = {.bits = b.bits()},
                           .accumulate = accumulate,
                           .site = site};
    multiply_now(call, Product::at_once);
}
template <int N, class T, Major b_major>
void multiply(Accumulator<N>& d, const OperandA<T>& a, const MatrixOperand<T, b_major>& b, bool accumulate,
              SourceSite site = SourceSite::here()) {
    using Product = ProductOf<element_type_of_product<T>, N, true, Major::k, b_major>;
    const ProductCall call{.shape = &Product::shape,
                           .d = &d[0],
                           .a_registers = a.registers(),
                           .b = {.bits = b.bits()},
                           .accumulate = accumulate,
                           .site = site};
    multiply_now(call, Product::at_once);
}

/// See simt::cuda::commit_products and wait_products: there is nothing to wait for.
inline void commit_products() {}
template <int allowed, class... Registers>
void wait_products(Registers&...) {}

}  // namespace unchecked
}  // namespace simt
