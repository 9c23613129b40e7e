#pragma once

#include <cstddef>

#include "common/simt/sync/cluster_calls_cpu.h"
#include "common/simt/views/views_unchecked.h"

// See common/simt/sync/cluster_cuda.h. Bare addresses, some way off.

namespace simt {
inline namespace unchecked {

/// See simt::cuda::TileOfBlock.
template <class Tile>
class TileOfBlock {
  public:
    using Element = typename Tile::Element;

    TileOfBlock(const Tile& tile, std::ptrdiff_t distance) : tile_(tile), distance_(distance) {}
    Element& operator()(int row, int column) const { return there(tile_(row, column)); }
    template <class V>
    V& vec(int row, int column) const {
        return there(tile_.template vec<V>(row, column));
    }

  private:
    template <class T>
    T& there(T& element) const {
        return *reinterpret_cast<T*>(reinterpret_cast<std::byte*>(&element) + distance_);
    }
    Tile tile_;
    std::ptrdiff_t distance_;
};

/// See simt::cuda::in_block.
template <class Tile>
TileOfBlock<Tile> in_block(const Tile& tile, int rank, SourceSite site = SourceSite::here()) {
    Block& block = running_cluster("in_block()", site).visit(rank, "reaches for a tile", site);
    return {tile, block.shared.data() - Block::current().shared.data()};
}

}  // namespace unchecked
}  // namespace simt
