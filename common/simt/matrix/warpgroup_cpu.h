#pragma once

#include <cstdint>
#include <cstring>

#include "common/simt/language/cuda_names.h"
#include "common/simt/language/float16.h"
#include "common/simt/matrix/matrix_instructions.h"
#include "common/simt/matrix/product_registers.h"
#include "common/simt/matrix/warpgroup.h"

// Registers of a warpgroup's products, as the checked CPU machine has them: classes that know whether a product is
// under way. What they are is documented with the GPU's version, in wgmma_cuda.h.

namespace simt {
inline namespace cpu {

/// See simt::cuda::Accumulator. Holds NaN until it is written, and while a product is under way.
template <int N>
class Accumulator : public AccumulatorLayout, public AccumulatorRegisters {
  public:
    static_assert(N % 8 == 0 && 8 <= N && N <= 256, "wgmma has columns by eights, up to 256");
    static constexpr int size = N / 2;  ///< elements of a thread

    explicit Accumulator(SourceSite site = SourceSite::here()) : AccumulatorRegisters(site) {
        std::memset(elements_, 0xff, sizeof(elements_));
    }
    Accumulator(const Accumulator& other, SourceSite site = SourceSite::here()) : AccumulatorRegisters(site) {
        other.check_copy(site);
        std::memcpy(elements_, other.elements_, sizeof(elements_));
    }

    /// Element `at.i`.
    [[gnu::always_inline]] float& operator[](RegisterAt at) {
        if (unsigned(at.i) >= unsigned(size)) [[unlikely]]
            fail_index(at.i, size, at.site);
        touch(at.i, at.site);
        return elements_[at.i];
    }
    [[gnu::always_inline]] float operator[](RegisterAt at) const { return const_cast<Accumulator&>(*this)[at]; }

    /// For the instructions.
    float* registers() { return elements_; }

  private:
    float elements_[size];
};

/// See simt::cuda::OperandA.
template <class T>
class OperandA : public OperandRegisters {
  public:
    explicit OperandA(SourceSite site = SourceSite::here()) : OperandRegisters(site) {}
    OperandA(const OperandA& other, SourceSite site = SourceSite::here()) : OperandRegisters(site) {
        copy(other, site);
    }
    OperandA& operator=(const OperandA& other) {
        copy(other, other.touched_at());  // most often what to_operand() has just made
        return *this;
    }

    void set(int r, std::uint32_t bits, SourceSite site = SourceSite::here()) {
        if (unsigned(r) >= unsigned(kCount)) [[unlikely]]
            fail_index(r, site);
        note_write(r, site);
        registers_[std::size_t(r)] = bits;
    }
    std::uint32_t operator[](RegisterAt at) const {
        if (unsigned(at.i) >= unsigned(kCount)) [[unlikely]]
            fail_index(at.i, at.site);
        check_read(at.i, at.site);
        return registers_[std::size_t(at.i)];
    }

    /// For the instructions.
    const std::uint32_t* registers() const { return registers_.data(); }

  private:
    void copy(const OperandA& other, SourceSite site) {
        other.check_read(0, site);
        note_write(0, site);
        take_notes_of(other);
        registers_ = other.registers_;
    }
};

/// See simt::cuda::to_operand.
template <class T, int N>
OperandA<T> to_operand(const Accumulator<N>& s, int k, SourceSite site = SourceSite::here()) {
    static_assert(sizeof(T) == 2, "8-bit operands want four neighbours to a thread: they are not the accumulator's");
    OperandA<T> operand(site);
    for (int r = 0; r < 4; ++r) {
        const float low = s[{8 * k + 2 * r, site}], high = s[{8 * k + 2 * r + 1, site}];
        operand.set(r, pack<T>(low, high), site);
    }
    return operand;
}

}  // namespace cpu
}  // namespace simt
