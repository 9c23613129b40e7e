#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

#include "common/simt/sync/cluster_calls_cpu.h"
#include "common/simt/views/views_cpu.h"

// See common/simt/sync/cluster_cuda.h. Another block's tile is reached with this block's addresses: each access tells
// the memory of the block that it is for.

namespace simt {
inline namespace cpu {

/// Where an element of another block's tile lies, as Ref asks.
struct AccessInBlock {
    std::size_t element_bytes;
    int rank;
    SourceSite site;

    template <class T>
    T* place_of(T* element) const {
        return element;
    }

    void note_read(const void* p, std::size_t bytes) const;
    void note_write(const void* p, std::size_t bytes) const;
};

/// See simt::cuda::TileOfBlock.
template <class Tile>
class TileOfBlock {
  public:
    using Element = typename Tile::Element;

    TileOfBlock(const Tile& tile, int rank) : tile_(tile), rank_(rank) {}

    Ref<Element, AccessInBlock> operator()(int row, int column, SourceSite site = SourceSite::here()) const {
        return there(tile_(row, column, site), site);
    }
    template <class V>
    Ref<V, AccessInBlock> vec(int row, int column, SourceSite site = SourceSite::here()) const {
        return there(tile_.template vec<V>(row, column, site), site);
    }

  private:
    template <class T>
    Ref<T, AccessInBlock> there(const Ref<T, SharedAccess>& here, SourceSite site) const {
        SharedMemory& own = Block::current().shared;
        const std::string what =
            "reaches for " + own.element_name(own.offset_of(here.address()), Block::current().thread());
        Block& block = running_cluster("in_block()", site).visit(rank_, what, site);
        auto* const place = block.shared.data() + own.offset_of(here.address());
        return {reinterpret_cast<T*>(place), {here.memory().element_bytes, rank_, site}};
    }

    Tile tile_;
    int rank_;
};

/// See simt::cuda::in_block.
template <class Tile>
TileOfBlock<Tile> in_block(const Tile& tile, int rank) {
    return {tile, rank};
}

inline void AccessInBlock::note_read(const void* p, std::size_t bytes) const {
    Block& me = Block::current();
    Block& block = me.cluster()->block(rank);
    const auto elements = SharedMemory::elements_of(block.shared.offset_of(p), bytes, element_bytes);
    if (&block == &me) return me.read_shared(elements, site);
    me.traffic.shared(false, elements.offset(), elements.bytes(), me.thread(), site);
    block.shared.read_by_visitor(elements, ClusterVisitor(me, block), site);
}
inline void AccessInBlock::note_write(const void* p, std::size_t bytes) const {
    Block& me = Block::current();
    Block& block = me.cluster()->block(rank);
    const auto elements = SharedMemory::elements_of(block.shared.offset_of(p), bytes, element_bytes);
    if (&block == &me) return me.write_shared(elements, site);
    me.traffic.shared(true, elements.offset(), elements.bytes(), me.thread(), site);
    block.shared.write_by_visitor(elements, ClusterVisitor(me, block), site);
}

}  // namespace cpu
}  // namespace simt
