#pragma once

#include <cstddef>
#include <cstdint>

#include "common/simt/language/cuda_names.h"
#include "common/simt/matrix/fragments.h"
#include "common/simt/report/source_site.h"

// What the tensor-core instructions of the CPU machine do, whatever the views are. What each function does is
// documented with the GPU's version, in tensor_core_cuda.h.

namespace simt {
inline namespace cpu {

/// What one lane hands to ldmatrix.
struct MatrixRow {
    const void* address;
    std::size_t element_bytes;
    SourceSite site;  ///< of the row, for messages
    void* registers;
};

/// Waits for all lanes, then reads `matrices` 8x8 matrices from the rows that lanes 0 to 8 * matrices - 1 passed, and
/// fills the registers of all. The rows of the other lanes are not read. A race or an uninitialised element is reported
/// with the thread that passed the row, although another one gets the element.
void load_matrices(int matrices, bool transposed, const MatrixRow& row, SourceSite site);

/// Products are exact in float, unless those of bf16 leave its range. They are added to c one by one, k upwards, each
/// sum rounded to the nearest float. So the sum keeps the bound that tensor_core_cuda.h states for the hardware, whose
/// order and rounding are others.
template <class T>
void mma_m16n8k16(FragmentC& d, const FragmentA<T>& a, const FragmentB<T>& b, const FragmentC& c,
                  SourceSite site = SourceSite::here());

/// D += A B.
template <class T>
void mma_m16n8k16(FragmentC& d, const FragmentA<T>& a, const FragmentB<T>& b, SourceSite site = SourceSite::here()) {
    mma_m16n8k16(d, a, b, d, site);
}

/// See simt::cuda::pack.
template <class T>
std::uint32_t pack(float low, float high) {
    static_assert(sizeof(T) == 2, "a register holds two f16 or two bf16");
    return T(low).bits() | std::uint32_t{T(high).bits()} << 16;
}

}  // namespace cpu
}  // namespace simt
