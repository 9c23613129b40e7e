#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "common/attention/arguments.h"
#include "common/attention/compiled_for.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// The tag of a kernel's element type.
template <class T>
constexpr simt::ElementType element_type_of() {
    if constexpr (std::is_same_v<T, simt::f16>)
        return simt::ElementType::f16;
    else if constexpr (std::is_same_v<T, simt::bf16>)
        return simt::ElementType::bf16;
    else if constexpr (std::is_same_v<T, simt::e4m3>)
        return simt::ElementType::e4m3;
    else if constexpr (std::is_same_v<T, simt::e5m2>)
        return simt::ElementType::e5m2;
    else
        return simt::ElementType::f32;
}

/// Calls `use(std::type_identity<T>())` with the one of the types T… whose tag is `type`. Throws std::invalid_argument
/// where there is none.
template <class... T, class Use>
void with_element_type_of(CompiledElements<T...>, simt::ElementType type, Use&& use) {
    const bool found = ((type == element_type_of<T>() && (use(std::type_identity<T>()), true)) || ...);
    if (found) return;
    std::string known;
    ((known += (known.empty() ? "" : ", ") + std::string(name_of(element_type_of<T>()))), ...);
    throw std::invalid_argument(std::string(name_of(type)) + " elements: no kernel takes them; " + known +
                                " are accepted");
}

/// The last of the sizes D…, which rise.
template <int... D>
constexpr int largest_of(std::integer_sequence<int, D...>) {
    int largest = 0;
    ((largest = D), ...);
    return largest;
}

/// Calls `use(std::integral_constant<int, D>())` with the first of the sizes D… that holds `head_dim`. Throws
/// std::invalid_argument where none does.
template <int... D, class Use>
void with_first_that_holds(std::integer_sequence<int, D...>, std::int64_t head_dim, Use&& use) {
    const bool found = ((head_dim <= D && (use(std::integral_constant<int, D>()), true)) || ...);
    if (!found)
        throw std::invalid_argument("head dimension " + std::to_string(head_dim) + "; 1 to " +
                                    std::to_string(largest_of(std::integer_sequence<int, D...>())) + " are accepted");
}

/// Calls `use(std::type_identity<T>())` with the kernel's element type for `type`.
template <class Use>
void with_element_type(simt::ElementType type, Use&& use) {
    with_element_type_of(KernelElements(), type, use);
}

/// How many pieces of b make up a: the quotient, rounded up. a >= 0, b > 0.
inline unsigned ceil_div(std::int64_t a, std::int64_t b) { return unsigned((a + b - 1) / b); }

/// Kernels are compiled for a few head dimensions. Any other runs in the next larger one: tiles are filled up with
/// zeros, which add nothing to a dot product, and the surplus columns of O are not stored. Calls
/// `use(std::integral_constant<int, D>())`.
template <class Use>
void with_head_dim(std::int64_t head_dim, Use&& use) {
    with_first_that_holds(KernelHeadDims(), head_dim, use);
}

/// The same for kernels that multiply on tensor cores.
template <class Use>
void with_mma_head_dim(std::int64_t head_dim, Use&& use) {
    with_first_that_holds(MmaHeadDims(), head_dim, use);
}

/// And for those that multiply by warpgroups: the tensor memory accelerator brings zeros where a tensor has no columns.
template <class Use>
void with_warpgroup_head_dim(std::int64_t head_dim, Use&& use) {
    with_first_that_holds(WarpgroupHeadDims(), head_dim, use);
}

/// The same for such kernels as are for head dimensions beyond 128 alone.
template <class Use>
void with_large_warpgroup_head_dim(std::int64_t head_dim, Use&& use) {
    with_first_that_holds(LargeWarpgroupHeadDims(), head_dim, use);
}

/// The same for a kernel of register tiles with one number of query rows, and beyond its largest size with that one: a
/// host entry asks what such a kernel needs before it asks whether it can run.
template <class Use>
void with_tiled_head_dim(std::int64_t head_dim, Use&& use) {
    with_first_that_holds(TiledKernelHeadDims(), std::min<std::int64_t>(head_dim, largest_of(TiledKernelHeadDims())),
                          use);
}

/// Calls `use(std::integral_constant<int, B_r>(), std::integral_constant<int, D>())` for a kernel of register tiles
/// (register_tile.cuh), one of the shapes Shape…: the smallest D that holds `head_dim`, and of that `queries` query
/// rows where there is a choice. Throws std::invalid_argument where no shape is wide enough.
template <class... Shape, class Use>
void with_shape_of(CompiledTiles<Shape...>, int queries, std::int64_t head_dim, Use&& use) {
    int columns = 0;
    ((columns = Shape::D >= head_dim && (columns == 0 || Shape::D < columns) ? Shape::D : columns), ...);
    const auto take = [&]<int B_r, int D>(TileShape<B_r, D>) {
        use(std::integral_constant<int, B_r>(), std::integral_constant<int, D>());
        return true;
    };
    const bool found = ((Shape::D == columns && Shape::B_r == queries && take(Shape())) || ...) ||
                       ((Shape::D == columns && take(Shape())) || ...);
    if (!found) throw std::invalid_argument("head dimension " + std::to_string(head_dim) + ": no tile is so wide");
}

/// The same for a whole problem: tiles of 128 queries where they make a block for every multiprocessor, else of 64.
/// Where a mask cuts a short sequence, most of the work is in edge tiles, of which smaller ones waste less: kernels for
/// 96 and for 256 columns gain more by that than they lose elsewhere (docs/tuning/phase3.md).
template <class Use>
void with_register_tiles(const AttentionArguments& a, Use&& use) {
    const std::int64_t D = a.head_dim();
    const bool fills_the_device = a.batch() * a.query_heads() * ceil_div(a.query_length(), 128) >= a.multiprocessors;
    const bool is_short = std::max(a.query_length(), a.key_length()) <= 1024;
    const bool gains = a.mask != Mask::none && is_short && ((64 < D && D <= 96) || D > 128);
    with_shape_of(RegisterTileShapes(), fills_the_device && !gains ? 128 : 64, D, use);
}

}  // namespace ladder::SIMT_MACHINE
