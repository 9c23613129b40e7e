#pragma once

#include <cstdint>

#include "common/simt/copies/cached_access_cuda.h"
#include "common/simt/copies/tensor_map_cuda.h"
#include "common/simt/device/architecture_cuda.h"
#include "common/simt/sync/mbarrier_cuda.h"
#include "common/simt/views/views_cuda.h"

// Copies by the tensor memory accelerator (PTX ISA, "Bulk copy": cp.async.bulk, cp.async.bulk.tensor,
// cp.reduce.async.bulk.tensor). One thread asks, elect_one(), and goes on; the accelerator computes the addresses and
// moves whole tiles. They need Feature::tma.
//
// A load says to a barrier in shared memory when its bytes are there. To whoever has waited for that phase they are
// visible, and to nobody else: not to the thread that asked either.
//
// Stores read shared memory behind the back of ordinary stores (the async proxy): whoever wrote calls show_to_async(),
// then a barrier, then one thread asks. That thread closes a group and waits for it, as with cp.async:
//
//     if (simt::elect_one()) {
//         simt::tma_store(O_map, {b, h, first_query, 0}, O_tile);
//         simt::commit_stores();
//         simt::wait_stores_read<0>();   // before anyone writes O_tile again; wait_stores<0>(): before others read O
//     }

namespace simt {
inline namespace cuda {

/// What a kernel says on a device that has none.
inline constexpr const char* kNoTma = "TMA: not in the architecture that this kernel was compiled for";

/// Whether Tile consists of panels; any other is one box.
template <class Tile>
concept HasPanels = requires {
    Tile::panel_stride;
};

/// Calls move(shared address, first column) for each box of a tile.
template <class Tile, class Move>
__device__ __forceinline__ void for_each_box(const Tile& tile, const Move& move) {
    if constexpr (HasPanels<Tile>) {
        const std::uint32_t first = shared_address(tile.data());
#pragma unroll
        for (int p = 0; p < Tile::panels; ++p) move(first + p * Tile::panel_stride, p * Tile::panel_columns);
    } else {
        static_assert(Tile::bytes == std::size_t(Tile::rows()) * Tile::columns() * sizeof(typename Tile::Element),
                      "the accelerator knows no padding");
        move(shared_address(&tile(0, 0)), 0);
    }
}

/// One cp.async.bulk.tensor to shared memory; tma_load() says what it does. PTX has the innermost coordinate first.
template <Reuse reuse, class T, int Rank>
__device__ __forceinline__ void load_box(std::uint32_t to, const TensorMap<T, Rank>& map, const int (&at)[Rank],
                                         int column, Mbarrier bar) {
    const auto m = reinterpret_cast<std::uint64_t>(&map);
    if constexpr (!kHasFeature<Feature::tma>)
        refuse(kNoTma);
    else if constexpr (reuse == Reuse::unknown) {
        if constexpr (Rank == 2)
            asm volatile(
                "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
                "[%2];"
                :
                : "r"(to), "l"(m), "r"(bar.address()), "r"(at[1] + column), "r"(at[0])
                : "memory");
        else if constexpr (Rank == 3)
            asm volatile(
                "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
                "[%2];"
                :
                : "r"(to), "l"(m), "r"(bar.address()), "r"(at[2] + column), "r"(at[1]), "r"(at[0])
                : "memory");
        else if constexpr (Rank == 4)
            asm volatile(
                "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                "[%1, {%3, %4, %5, %6}], [%2];"
                :
                : "r"(to), "l"(m), "r"(bar.address()), "r"(at[3] + column), "r"(at[2]), "r"(at[1]), "r"(at[0])
                : "memory");
        else
            asm volatile(
                "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                "[%1, {%3, %4, %5, %6, %7}], [%2];"
                :
                : "r"(to), "l"(m), "r"(bar.address()), "r"(at[4] + column), "r"(at[3]), "r"(at[2]), "r"(at[1]),
                  "r"(at[0])
                : "memory");
    } else {
        const std::uint64_t policy = cache_policy<reuse>();
        if constexpr (Rank == 2)
            asm volatile(
                "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
                "[%1, {%4, %5}], [%2], %3;"
                :
                : "r"(to), "l"(m), "r"(bar.address()), "l"(policy), "r"(at[1] + column), "r"(at[0])
                : "memory");
        else if constexpr (Rank == 3)
            asm volatile(
                "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
                "[%1, {%4, %5, %6}], [%2], %3;"
                :
                : "r"(to), "l"(m), "r"(bar.address()), "l"(policy), "r"(at[2] + column), "r"(at[1]), "r"(at[0])
                : "memory");
        else if constexpr (Rank == 4)
            asm volatile(
                "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
                "[%1, {%4, %5, %6, %7}], [%2], %3;"
                :
                : "r"(to), "l"(m), "r"(bar.address()), "l"(policy), "r"(at[3] + column), "r"(at[2]), "r"(at[1]),
                  "r"(at[0])
                : "memory");
        else
            asm volatile(
                "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
                "[%1, {%4, %5, %6, %7, %8}], [%2], %3;"
                :
                : "r"(to), "l"(m), "r"(bar.address()), "l"(policy), "r"(at[4] + column), "r"(at[3]), "r"(at[2]),
                  "r"(at[1]), "r"(at[0])
                : "memory");
    }
}

/// As load_box(), for the blocks of a mask; tma_load_for_cluster() says what it does.
template <class T, int Rank>
__device__ __forceinline__ void load_box_for_cluster(std::uint32_t to, const TensorMap<T, Rank>& map,
                                                     const int (&at)[Rank], int column, Mbarrier bar,
                                                     std::uint16_t blocks) {
    const auto m = reinterpret_cast<std::uint64_t>(&map);
    if constexpr (!kHasFeature<Feature::tma> || !kHasFeature<Feature::cluster>)
        refuse(kNoTma);
    else if constexpr (Rank == 2)
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
            "[%1, {%4, %5}], [%2], %3;"
            :
            : "r"(to), "l"(m), "r"(bar.address()), "h"(blocks), "r"(at[1] + column), "r"(at[0])
            : "memory");
    else if constexpr (Rank == 3)
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
            "[%1, {%4, %5, %6}], [%2], %3;"
            :
            : "r"(to), "l"(m), "r"(bar.address()), "h"(blocks), "r"(at[2] + column), "r"(at[1]), "r"(at[0])
            : "memory");
    else if constexpr (Rank == 4)
        asm volatile(
            "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
            "[%1, {%4, %5, %6, %7}], [%2], %3;"
            :
            : "r"(to), "l"(m), "r"(bar.address()), "h"(blocks), "r"(at[3] + column), "r"(at[2]), "r"(at[1]), "r"(at[0])
            : "memory");
    else
        asm volatile(
            "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
            "[%1, {%4, %5, %6, %7, %8}], [%2], %3;"
            :
            : "r"(to), "l"(m), "r"(bar.address()), "h"(blocks), "r"(at[4] + column), "r"(at[3]), "r"(at[2]), "r"(at[1]),
              "r"(at[0])
            : "memory");
}

/// What is done with a box of shared memory on its way to global memory, in PTX's words.
struct StoreBox {
    static constexpr char instruction[] = "cp.async.bulk.tensor";  ///< its name
    static constexpr char operation[] = "";                        ///< and what follows it
};
/// The same where it is added to what is there.
struct AddBox {
    static constexpr char instruction[] = "cp.reduce.async.bulk.tensor";  ///< its name
    static constexpr char operation[] = ".add";                           ///< and what follows it
};

/// One cp.async.bulk.tensor or cp.reduce.async.bulk.tensor to global memory.
template <class What, class T, int Rank>
__device__ __forceinline__ void send_box(const TensorMap<T, Rank>& map, const int (&at)[Rank], int column,
                                         std::uint32_t from) {
    const auto m = reinterpret_cast<std::uint64_t>(&map);
    if constexpr (!kHasFeature<Feature::tma>)
        refuse(kNoTma);
    else if constexpr (Rank == 2)
        asm volatile("%0.2d.global.shared::cta%1.tile.bulk_group [%2, {%4, %5}], [%3];"
                     :
                     : "C"(What::instruction), "C"(What::operation), "l"(m), "r"(from), "r"(at[1] + column), "r"(at[0])
                     : "memory");
    else if constexpr (Rank == 3)
        asm volatile("%0.3d.global.shared::cta%1.tile.bulk_group [%2, {%4, %5, %6}], [%3];"
                     :
                     : "C"(What::instruction), "C"(What::operation), "l"(m), "r"(from), "r"(at[2] + column), "r"(at[1]),
                       "r"(at[0])
                     : "memory");
    else if constexpr (Rank == 4)
        asm volatile("%0.4d.global.shared::cta%1.tile.bulk_group [%2, {%4, %5, %6, %7}], [%3];"
                     :
                     : "C"(What::instruction), "C"(What::operation), "l"(m), "r"(from), "r"(at[3] + column), "r"(at[2]),
                       "r"(at[1]), "r"(at[0])
                     : "memory");
    else
        asm volatile("%0.5d.global.shared::cta%1.tile.bulk_group [%2, {%4, %5, %6, %7, %8}], [%3];"
                     :
                     : "C"(What::instruction), "C"(What::operation), "l"(m), "r"(from), "r"(at[4] + column), "r"(at[3]),
                       "r"(at[2]), "r"(at[1]), "r"(at[0])
                     : "memory");
}

/// Fills `tile` with the tensor's elements from `at` on, coordinates in the order of its dimensions, and reports its
/// bytes to `bar`, which must expect them: all of the tile's, also those beyond the tensor's end, which arrive as
/// zeros. Coordinates may be negative; that of the last dimension stands at a multiple of 16 bytes (no page says so,
/// but others are an illegal instruction). One instruction for each panel. Nobody may touch the tile before its phase
/// of `bar` is over. One thread calls it; whoever read the tile before has arrived at a barrier that this thread has
/// waited for.
///
///     simt::tma_load<Reuse::soon>(K_j, K_map, {b, h, first_key, 0}, full[stage]);
template <Reuse reuse = Reuse::unknown, class Tile, class T, int Rank>
__device__ __forceinline__ void tma_load(const Tile& tile, const TensorMap<T, Rank>& map, const int (&at)[Rank],
                                         Mbarrier bar) {
    for_each_box(tile, [&](std::uint32_t to, int first_column) { load_box<reuse>(to, map, at, first_column, bar); });
}

/// The same for every block of the cluster whose bit of `blocks` is set (multicast): one read of global memory fills
/// the tile at the same place in each of them, and each block's barrier at the same place is told of its own bytes,
/// which that block must expect. All of these blocks have made their barriers and met by cluster_sync() before; whoever
/// read the old tiles, in each of them, has arrived at a barrier that the calling thread has waited for, by
/// wait_in_cluster(). Needs Feature::cluster.
///
///     simt::tma_load_for_cluster(K_j, K_map, {b, h, first_key, 0}, full[stage], 0b11);
template <class Tile, class T, int Rank>
__device__ __forceinline__ void tma_load_for_cluster(const Tile& tile, const TensorMap<T, Rank>& map,
                                                     const int (&at)[Rank], Mbarrier bar, unsigned blocks) {
    for_each_box(tile, [&](std::uint32_t to, int first_column) {
        load_box_for_cluster(to, map, at, first_column, bar, std::uint16_t(blocks));
    });
}

/// Writes `tile` to the tensor from `at` on; what lies beyond its end is left out, along rows in whole pieces of 16
/// bytes: so the tensor's rows must be a multiple of 16 bytes, or more is written. No coordinate may be negative (an
/// illegal instruction), and that of the last dimension stands at a multiple of 16 bytes. Belongs to the thread's open
/// group of stores.
template <class Tile, class T, int Rank>
__device__ __forceinline__ void tma_store(const TensorMap<T, Rank>& map, const int (&at)[Rank], const Tile& tile) {
    for_each_box(tile, [&](std::uint32_t from, int first_column) { send_box<StoreBox>(map, at, first_column, from); });
}

/// Adds `tile` to the tensor's elements there, where tma_store() would write it, each addition by itself and in no
/// order (as atomicAdd does): float, f16 or bf16.
template <class Tile, class T, int Rank>
__device__ __forceinline__ void tma_add(const TensorMap<T, Rank>& map, const int (&at)[Rank], const Tile& tile) {
    for_each_box(tile, [&](std::uint32_t from, int first_column) { send_box<AddBox>(map, at, first_column, from); });
}

/// Closes the group of the stores and additions that this thread has asked for since the last.
__device__ __forceinline__ void commit_stores() {
    if constexpr (kHasFeature<Feature::tma>)
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    else
        refuse(kNoTma);
}

/// Waits until at most the `allowed` newest groups of this thread are under way; the others are in global memory.
template <int allowed>
__device__ __forceinline__ void wait_stores() {
    if constexpr (kHasFeature<Feature::tma>)
        asm volatile("cp.async.bulk.wait_group %0;" : : "n"(allowed) : "memory");
    else
        refuse(kNoTma);
}

/// Waits until all but the `allowed` newest have read their tiles, which may then be written again.
template <int allowed>
__device__ __forceinline__ void wait_stores_read() {
    if constexpr (kHasFeature<Feature::tma>)
        asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(allowed) : "memory");
    else
        refuse(kNoTma);
}

/// Fetches a map into the accelerator's cache before it is needed.
template <class T, int Rank>
__device__ __forceinline__ void prefetch_map(const TensorMap<T, Rank>& map) {
    if constexpr (kHasFeature<Feature::tma>)
        asm volatile("prefetch.tensormap [%0];" : : "l"(reinterpret_cast<std::uint64_t>(&map)) : "memory");
    else
        refuse(kNoTma);
}

/// Copies `bytes` neighbouring bytes, a multiple of 16, from global memory to shared memory, both at a multiple of 16,
/// and reports them to `bar`. For what has no rows:
///
///     simt::bulk_load(LSE_i(0, 0), LSE(first_query), B_r * 4, full[stage]);
template <class S, class G>
__device__ __forceinline__ void bulk_load(S& destination, const G& source, int bytes, Mbarrier bar) {
    if constexpr (kHasFeature<Feature::tma>)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     :
                     : "r"(shared_address(&destination)), "l"(__cvta_generic_to_global(&source)), "r"(bytes),
                       "r"(bar.address())
                     : "memory");
    else
        refuse(kNoTma);
}

/// Adds `bytes` neighbouring bytes of floats, a multiple of 16, to global memory: each by itself and in no order.
/// Belongs to the thread's open group of stores.
__device__ __forceinline__ void bulk_add(float& destination, const float& source, int bytes) {
    if constexpr (kHasFeature<Feature::tma>)
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
                     :
                     : "l"(__cvta_generic_to_global(&destination)), "r"(shared_address(&source)), "r"(bytes)
                     : "memory");
    else
        refuse(kNoTma);
}

}  // namespace cuda
}  // namespace simt
