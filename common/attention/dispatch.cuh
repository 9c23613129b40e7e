#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>

#include "common/attention/arguments.h"
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

/// How many pieces of b make up a: the quotient, rounded up. a >= 0, b > 0.
inline unsigned ceil_div(std::int64_t a, std::int64_t b) { return unsigned((a + b - 1) / b); }

/// As with_head_dim, for kernels that are compiled for 32, 64 and 128 only.
template <class Use>
void with_tiled_head_dim(std::int64_t head_dim, Use&& use) {
    if (head_dim <= 32) return use(std::integral_constant<int, 32>());
    if (head_dim <= 64) return use(std::integral_constant<int, 64>());
    use(std::integral_constant<int, 128>());
}

/// Calls `use(std::integral_constant<int, B_r>(), std::integral_constant<int, D>())` for a kernel of register tiles
/// (register_tile.cuh): tiles of 128 queries where they make a block for every multiprocessor, else of 64.
template <class Use>
void with_register_tiles(const AttentionArguments& a, Use&& use) {
    const auto with = [&]<int B_r, int D>() {
        use(std::integral_constant<int, B_r>(), std::integral_constant<int, D>());
    };
    const std::int64_t head_dim = a.head_dim();
    const bool large = a.batch() * a.query_heads() * ceil_div(a.query_length(), 128) >= a.multiprocessors;
    if (head_dim <= 32) return large ? with.template operator()<128, 32>() : with.template operator()<64, 32>();
    if (head_dim <= 64) return large ? with.template operator()<128, 64>() : with.template operator()<64, 64>();
    if (head_dim <= 96) return with.template operator()<128, 96>();
    if (head_dim <= 128) return large ? with.template operator()<128, 128>() : with.template operator()<64, 128>();
    large ? with.template operator()<128, 256>() : with.template operator()<64, 256>();
}

}  // namespace ladder::SIMT_MACHINE
