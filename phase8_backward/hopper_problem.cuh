#pragma once

#include <algorithm>
#include <cstdint>

#include "common/attention/key_tiles.cuh"
#include "common/attention/warpgroup_tile.cuh"
#include "common/simt/simt.h"
#include "phase8_backward/backward_tensors.cuh"
#include "phase8_backward/hopper_arguments.h"
#include "phase8_backward/hopper_rows.cuh"

namespace ladder::SIMT_MACHINE {

// What the kernels of hopper_backward.cuh and hopper_backward_wide.cuh are given, how they are launched, what they
// move.

/// What the kernel is given beside the maps.
struct BackwardProblem {
    simt::GlobalTensor<const float, 3> LSE2, D;  ///< [B, Hq, whole tiles of queries]
    simt::GlobalTensor<int, 3> turns;            ///< [B, Hq, tiles of queries]: how many key tiles have added to each
    int batch, kv_heads, group;                  ///< B; Hkv; `group` neighbouring query heads read the same keys
    int query_length, key_length;                ///< Sq and Sk
    float scale;                                 ///< factor on Q K^T
    Mask mask;                                   ///< which keys a query sees
    int heads_at_once;                           ///< key heads that walk side by side, from their first tiles on

    /// Reads it off; B_c keys make a tile.
    BackwardProblem(const HopperBackwardArguments& a, int B_c)
        : LSE2(simt::global_tensor<const float, 3>(a.lse2)),
          D(simt::global_tensor<const float, 3>(a.d)),
          batch(int(a.batch())),
          kv_heads(int(a.kv_heads())),
          group(int(a.query_heads() / a.kv_heads())),
          query_length(int(a.query_length())),
          key_length(int(a.key_length())),
          scale(a.scale),
          mask(a.mask),
          heads_at_once(heads_side_by_side(a, B_c)) {
        if (a.turns.rank) turns = simt::global_tensor<int, 3>(a.turns);
    }

    /// How many key heads walk side by side (measured: docs/tuning/phase8.md). Tiles of one head read the same queries,
    /// so that L2 reads them once for all; but where they take turns, each lags a step behind the one before it, and
    /// with several heads at once fewer of a head are there together. Without a mask that lag matters only where a
    /// head's tiles do not fill the GPU anyway. Under a mask tiles of several heads also even out: a head's first tile
    /// is seen by the most queries, its last by the fewest.
    static int heads_side_by_side(const HopperBackwardArguments& a, int B_c) {
        const bool in_order = a.turns.rank > 0, masked = a.mask != Mask::none;
        const bool few_tiles = int(ceil_div(a.key_length(), B_c)) < a.multiprocessors / 4;
        const std::int64_t heads = !in_order ? (masked ? 2 : 1) : masked ? 8 : few_tiles ? 4 : 1;
        return int(std::min(heads, a.batch() * a.kv_heads()));
    }
};

/// Tensors as they were given, for what the products of cleared tiles leave out (hopper_non_finite.cuh).
template <class T>
struct GivenTensors {
    simt::GlobalTensor<const T, 4> K, dO;  ///< [B, Hkv, Sk, D] and [B, Hq, Sq, D]

    /// The views of a problem.
    explicit GivenTensors(const HopperBackwardArguments& a)
        : K(simt::global_tensor<const T, 4>(a.k)), dO(simt::global_tensor<const T, 4>(a.dout)) {}
};

/// For the rows: O, dO, LSE and dLSE once; D and LSE once for whole tiles, zeros; dQ_sum once and dQ once. For each key
/// tile: K and V once; for each query head of its group, Q, dO, LSE and D of whole tiles from the first on that sees
/// it; what it adds to dQ_sum for these; dK and dV once. Turns, where there are any, twice for each of these tiles.
template <class Shape>
GlobalBytes bytes_of_shape(const HopperBackwardArguments& a) {
    constexpr std::uint64_t element = 2, number = sizeof(float);
    const std::uint64_t Sq = a.query_length(), Sk = a.key_length(), row = (a.head_dim() + 7) / 8 * 8;
    const std::uint64_t heads = a.batch() * a.query_heads(), kv_heads = a.batch() * a.kv_heads();
    const std::uint64_t tiles = ceil_div(Sq, Shape::B_r);
    std::uint64_t visits = 0, rows = 0;
    for (std::int64_t key = 0; key < a.key_length(); key += Shape::B_c) {
        const int first = first_seeing(a.mask, int(key), int(Sq), int(Sk)) / Shape::B_r;
        visits += std::max<std::int64_t>(std::int64_t(tiles) - first, 0);
        rows += std::max<std::int64_t>(std::int64_t(Sq) - std::int64_t{first} * Shape::B_r, 0);
    }
    return {.read = heads * Sq * (2 * row * element + number + (a.dlse.rank ? number : 0)) + heads * Sq * row * number +
                    kv_heads * Sk * 2 * row * element +
                    heads * (rows * 2 * row * element + visits * Shape::B_r * 2 * number),
            .written = heads * tiles * Shape::B_r * 2 * number + heads * Sq * row * number +
                       heads * Sq * row * element + heads * rows * row * number + kv_heads * Sk * 2 * row * element};
}

/// Launches three kernels, one after the other: the rows, `kernel` with a block for each key tile, and dQ's rounding.
template <class T, class Shape, class Kernel>
void launch_for_keys(const HopperBackwardArguments& a, const char* name, std::size_t shared_bytes, Kernel kernel) {
    constexpr int D = Shape::D;
    constexpr simt::Swizzle swizzle = kRowSwizzle<D>;
    cudaLaunchConfig_t by_rows{};
    by_rows.gridDim = dim3(ceil_div(a.lse2.extents[2], RowPiece<D>::rows), a.query_heads(), a.batch());
    by_rows.blockDim = dim3(kRowThreads);
    by_rows.stream = static_cast<cudaStream_t>(a.stream);
    simt::launch("hopper_rows_kernel", by_rows, hopper_rows_kernel<T, D>, BackwardRows<T>(a));

    cudaLaunchConfig_t config{};
    config.gridDim = dim3(ceil_div(a.key_length(), Shape::B_c) * a.kv_heads() * a.batch());
    config.blockDim = dim3(Shape::threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = static_cast<cudaStream_t>(a.stream);
    simt::launch(name, config, kernel, simt::tile_map<T, 4, Shape::B_r, D, swizzle>(a.q),
                 simt::tile_map<T, 4, Shape::B_c, D, swizzle>(a.k), simt::tile_map<T, 4, Shape::B_c, D, swizzle>(a.v),
                 simt::tile_map<T, 4, Shape::B_r, D, swizzle>(a.dout),
                 simt::tile_map<float, 4, Shape::B_r, Shape::sum_columns, simt::Swizzle::b128>(a.dq_sum),
                 simt::tile_map<T, 4, 16, D, swizzle>(a.dk), simt::tile_map<T, 4, 16, D, swizzle>(a.dv),
                 BackwardProblem(a, Shape::B_c), GivenTensors<T>(a));
    simt::launch("hopper_round_kernel", by_rows, hopper_round_kernel<T, D>, BackwardRows<T>(a));
}

}  // namespace ladder::SIMT_MACHINE
