#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// Calls `use(std::type_identity<T>())` with the kernel's element type for `type`.
template <class Use>
void with_element_type(simt::ElementType type, Use&& use) {
    switch (type) {
        case simt::ElementType::f32:
            return use(std::type_identity<float>());
        case simt::ElementType::f16:
            return use(std::type_identity<simt::f16>());
        case simt::ElementType::bf16:
            return use(std::type_identity<simt::bf16>());
        case simt::ElementType::i32:
        case simt::ElementType::e4m3:
        case simt::ElementType::e5m2:
            throw std::invalid_argument(std::string(name_of(type)) +
                                        " elements: no kernel takes them; float32, float16 and bfloat16 are accepted");
    }
}

/// Kernels are compiled for a few head dimensions. Any other runs in the next larger one: tiles are filled up with
/// zeros, which add nothing to a dot product, and the surplus columns of O are not stored. Calls
/// `use(std::integral_constant<int, D>())`.
template <class Use>
void with_head_dim(std::int64_t head_dim, Use&& use) {
    if (head_dim <= 32) return use(std::integral_constant<int, 32>());
    if (head_dim <= 64) return use(std::integral_constant<int, 64>());
    if (head_dim <= 128) return use(std::integral_constant<int, 128>());
    if (head_dim <= 256) return use(std::integral_constant<int, 256>());
    throw std::invalid_argument("head dimension " + std::to_string(head_dim) + "; 1 to 256 are accepted");
}

/// The same for kernels of wide tiles (wide_tile.cuh), which are compiled for 32, 64 and 128 only: with more, O_i would
/// not fit the registers.
template <class Use>
void with_wide_head_dim(std::int64_t head_dim, Use&& use) {
    if (head_dim <= 32) return use(std::integral_constant<int, 32>());
    if (head_dim <= 64) return use(std::integral_constant<int, 64>());
    use(std::integral_constant<int, 128>());
}

/// How many pieces of b make up a: the quotient, rounded up. a >= 0, b > 0.
inline unsigned ceil_div(std::int64_t a, std::int64_t b) { return unsigned((a + b - 1) / b); }

}  // namespace ladder::SIMT_MACHINE
