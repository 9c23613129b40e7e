#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "common/simt/copies/bulk_copies.h"
#include "common/simt/copies/reuse.h"
#include "common/simt/copies/tensor_map_cpu.h"
#include "common/simt/language/float16.h"
#include "common/simt/sync/mbarrier_cpu.h"

// Copies by the tensor memory accelerator, as the CPU machines model them: see BulkCopies. What each function does is
// documented with the GPU's version, in tma_cuda.h.

namespace simt {
inline namespace SIMT_NAMESPACE {

/// Where an element lies that a view gave: a reference of the checked machine, or a bare one.
template <class Element>
auto* address_of(Element& element) {
    if constexpr (requires { element.address(); })
        return element.address();
    else
        return &element;
}

/// And the tensor that it belongs to, as far as the machine knows.
template <class Element>
int tensor_of(const Element& element) {
    if constexpr (requires { element.memory().tensor; })
        return element.memory().tensor;
    else
        return 0;
}

/// Calls use(place, first column) for each box of a tile: its panels, or all of it.
template <class Tile, class Use>
void for_each_box(const Tile& tile, Use use) {
    using T = typename Tile::Element;
    SharedMemory& shared = Block::current().shared;
    if constexpr (requires { Tile::panel_stride; }) {
        const auto offset = std::uint32_t(shared.offset_of(tile.data()));
        for (int p = 0; p < Tile::panels; ++p)
            use(BoxPlace{offset + std::uint32_t(p * Tile::panel_stride), Tile::rows(), Tile::row_bytes, Tile::swizzle},
                p * Tile::panel_columns);
    } else {
        static_assert(Tile::bytes == std::size_t(Tile::rows()) * Tile::columns() * sizeof(T),
                      "the accelerator knows no padding");
        auto&& first = tile(0, 0);
        use(BoxPlace{std::uint32_t(shared.offset_of(address_of(first))), Tile::rows(), Tile::columns() * int(sizeof(T)),
                     Swizzle::none},
            0);
    }
}

/// Calls use(BulkCopies&, box) for each box of a tile, from `at` of the tensor on.
template <class Tile, class T, int Rank, class Use>
void with_boxes(const Tile& tile, const TensorMap<T, Rank>& map, const int (&at)[Rank], SourceSite site, Use use) {
    static_assert(std::is_same_v<std::remove_const_t<T>, typename Tile::Element>,
                  "the map's elements and the tile's are of one type");
    BulkCopies& copies = Block::current().companion<BulkCopies>();
    for_each_box(tile, [&](const BoxPlace& place, int first_column) {
        TensorCoordinates from{};
        for (int d = 0; d < Rank; ++d) from[std::size_t(d)] = at[d] + (d + 1 == Rank ? first_column : 0);
        use(copies, BulkCopies::Box{map.shape(), map.tensor(), from, place, site});
    });
}

/// How elements T are added up in global memory: in their own precision, each addition by itself.
template <class T>
void add_elements(void* to, const void* values, std::size_t count) {
    auto* const sums = static_cast<T*>(to);
    const auto* const more = static_cast<const T*>(values);
    for (std::size_t i = 0; i < count; ++i) {
        if constexpr (std::is_same_v<T, int>)
            sums[i] = int(unsigned(sums[i]) + unsigned(more[i]));
        else
            sums[i] = T(float(sums[i]) + float(more[i]));
    }
}

/// See simt::cuda::tma_load.
template <Reuse = Reuse::unknown, class Tile, class T, int Rank>
void tma_load(const Tile& tile, const TensorMap<T, Rank>& map, const int (&at)[Rank], Mbarrier bar,
              SourceSite site = SourceSite::here()) {
    with_boxes(tile, map, at, site,
               [&](BulkCopies& copies, const BulkCopies::Box& box) { copies.load("tma_load", box, bar.offset()); });
}

/// See simt::cuda::tma_load_for_cluster.
template <class Tile, class T, int Rank>
void tma_load_for_cluster(const Tile& tile, const TensorMap<T, Rank>& map, const int (&at)[Rank], Mbarrier bar,
                          unsigned blocks, SourceSite site = SourceSite::here()) {
    with_boxes(tile, map, at, site, [&](BulkCopies& copies, const BulkCopies::Box& box) {
        copies.load_for_cluster("tma_load_for_cluster", box, bar.offset(), blocks);
    });
}

/// See simt::cuda::tma_store.
template <class Tile, class T, int Rank>
void tma_store(const TensorMap<T, Rank>& map, const int (&at)[Rank], const Tile& tile,
               SourceSite site = SourceSite::here()) {
    static_assert(!std::is_const_v<T>, "this map is only read from: TensorMap<T, …>, without const, can be stored to");
    with_boxes(tile, map, at, site,
               [&](BulkCopies& copies, const BulkCopies::Box& box) { copies.store("tma_store", box, nullptr); });
}

/// See simt::cuda::tma_add.
template <class Tile, class T, int Rank>
void tma_add(const TensorMap<T, Rank>& map, const int (&at)[Rank], const Tile& tile,
             SourceSite site = SourceSite::here()) {
    static_assert(!std::is_const_v<T>, "this map is only read from: TensorMap<T, …>, without const, can be stored to");
    static_assert(
        std::is_same_v<T, float> || std::is_same_v<T, f16> || std::is_same_v<T, bf16> || std::is_same_v<T, int>,
        "TMA adds float, f16, bf16 and int");
    with_boxes(tile, map, at, site,
               [&](BulkCopies& copies, const BulkCopies::Box& box) { copies.store("tma_add", box, add_elements<T>); });
}

/// See simt::cuda::commit_stores.
inline void commit_stores(SourceSite site = SourceSite::here()) {
    Block& block = Block::current();
    block.require_feature(Feature::tma, site);
    block.companion<BulkCopies>().commit(site);
}

/// See simt::cuda::wait_stores.
template <int allowed>
void wait_stores(SourceSite site = SourceSite::here()) {
    static_assert(allowed >= 0);
    Block& block = Block::current();
    block.require_feature(Feature::tma, site);
    block.companion<BulkCopies>().wait(allowed, false, site);
}

/// See simt::cuda::wait_stores_read.
template <int allowed>
void wait_stores_read(SourceSite site = SourceSite::here()) {
    static_assert(allowed >= 0);
    Block& block = Block::current();
    block.require_feature(Feature::tma, site);
    block.companion<BulkCopies>().wait(allowed, true, site);
}

/// See simt::cuda::prefetch_map. There is no cache here.
template <class T, int Rank>
void prefetch_map(const TensorMap<T, Rank>& map, SourceSite site = SourceSite::here()) {
    Block::current().companion<BulkCopies>().check_made("prefetch_map", map.shape(), site);
}

/// The bytes from a view's element on, in global and in shared memory.
template <class Global, class Shared>
BulkCopies::Bytes bytes_between(Global& global, Shared& shared, int bytes, SourceSite site) {
    auto* const to = address_of(shared);
    auto* const from = address_of(global);
    static_assert(std::is_same_v<std::remove_cvref_t<decltype(*to)>, std::remove_cvref_t<decltype(*from)>>,
                  "both sides are of one type");
    return {.global = const_cast<void*>(static_cast<const void*>(from)),
            .tensor = tensor_of(global),
            .shared = std::uint32_t(Block::current().shared.offset_of(to)),
            .bytes = bytes,
            .element_bytes = int(sizeof(*to)),
            .site = site};
}

/// See simt::cuda::bulk_load.
template <class Shared, class Global>
void bulk_load(Shared&& destination, Global&& source, int bytes, Mbarrier bar, SourceSite site = SourceSite::here()) {
    Block::current().companion<BulkCopies>().load("bulk_load", bytes_between(source, destination, bytes, site),
                                                  bar.offset());
}

/// See simt::cuda::bulk_add.
template <class Global, class Shared>
void bulk_add(Global&& destination, Shared&& source, int bytes, SourceSite site = SourceSite::here()) {
    static_assert(std::is_same_v<std::remove_cvref_t<decltype(*address_of(destination))>, float>);
    Block::current().companion<BulkCopies>().store("bulk_add", bytes_between(destination, source, bytes, site),
                                                   add_elements<float>);
}

}  // namespace SIMT_NAMESPACE
}  // namespace simt
