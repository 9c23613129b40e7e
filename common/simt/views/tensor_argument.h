#pragma once

#include <array>
#include <cstdint>

#include "common/simt/language/element_type.h"

namespace simt {

/// A tensor on its way from the host to a kernel: nothing but numbers, so that kernels need not know the library that
/// owns the memory. Dimensions beyond `rank` are unused.
struct TensorArgument {
    const char* name = "";                ///< under which its traffic is counted: "Q", "K", …; must be a literal
    void* data = nullptr;                 ///< element (0, …, 0), in the memory of the device that the kernel runs on
    ElementType type = ElementType::f32;  ///< of every element
    int rank = 0;                         ///< dimensions, up to four; 0 where there is no tensor
    std::array<std::int64_t, 4> extents{};  ///< elements along each dimension
    std::array<std::int64_t, 4> strides{};  ///< in elements

    /// Whether every row of the last dimension starts at a multiple of 16 bytes, so that wide vectors may be used.
    bool rows_aligned_to_16_bytes() const {
        const std::int64_t width = 16 / std::int64_t(element_bytes(type));
        if (rank == 0 || reinterpret_cast<std::uintptr_t>(data) % 16 || extents[rank - 1] % width) return false;
        for (int i = 0; i + 1 < rank; ++i)
            if (extents[i] > 1 && strides[i] % width) return false;
        return strides[rank - 1] == 1;
    }
};

}  // namespace simt
