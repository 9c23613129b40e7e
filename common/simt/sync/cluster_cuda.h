#pragma once

#include <cstdint>

#include "common/simt/device/architecture_cuda.h"
#include "common/simt/sync/mbarrier_cuda.h"

// Clusters: up to 8 blocks that are on the device together, close to each other, and reach each other's shared memory
// (PTX ISA: barrier.cluster, mapa, .shared::cluster). They need Feature::cluster, and a launch with the attribute:
//
//     cudaLaunchAttribute attribute = simt::cluster_dimension(2);  // the grid is a multiple
//     config.attrs = &attribute;
//     config.numAttrs = 1;
//
// All blocks carve the same tiles and barriers, so each of them has its own at the same place:
//
//     sum(0, 0) = mine;
//     simt::cluster_sync();                                  // all have begun, and written
//     const auto theirs = simt::in_block(sum, simt::cluster_rank() ^ 1);
//     const float both = float(sum(0, 0)) + float(theirs(0, 0));
//     simt::cluster_sync();                                  // nobody ends while others look
//
// A block may have begun later, or end earlier, than another one: so the first access to another block's memory comes
// after a cluster_sync(), and one follows the last.

namespace simt {
inline namespace cuda {

/// What a kernel says on a device that has none.
inline constexpr const char* kNoClusters = "clusters: not in the architecture that this kernel was compiled for";

/// The block's number in its cluster, from 0 on: x fastest, then y.
__device__ __forceinline__ int cluster_rank() {
    unsigned rank = 0;
    if constexpr (kHasFeature<Feature::cluster>)
        asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    else
        refuse(kNoClusters);
    return int(rank);
}

/// Blocks of the cluster.
__device__ __forceinline__ int cluster_size() {
    unsigned size = 1;
    if constexpr (kHasFeature<Feature::cluster>)
        asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    else
        refuse(kNoClusters);
    return int(size);
}

/// One of the two halves of cluster_sync(): what this thread did before is done (release). Each thread of the cluster
/// arrives, and then waits, once.
__device__ __forceinline__ void cluster_arrive() {
    if constexpr (kHasFeature<Feature::cluster>)
        asm volatile("barrier.cluster.arrive.release;" ::: "memory");
    else
        refuse(kNoClusters);
}

/// The other: waits until all threads of the cluster that have not returned have arrived (acquire).
__device__ __forceinline__ void cluster_wait() {
    if constexpr (kHasFeature<Feature::cluster>)
        asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
    else
        refuse(kNoClusters);
}

/// A barrier for all threads of the cluster. What they did before, to shared and global memory, is visible after it.
__device__ __forceinline__ void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}

/// Another block's tile: the elements at the same place of its shared memory.
template <class Tile>
class TileOfBlock {
  public:
    using Element = typename Tile::Element;  ///< what it is made of

    /// in_block() makes them. `base`: the other block's first element.
    __device__ __forceinline__ TileOfBlock(const Tile& tile, std::uint64_t base) : tile_(tile), base_(base) {}

    /// One element, and neighbours of one row, as the tile has them.
    __device__ __forceinline__ Element& operator()(int row, int column) const { return there(tile_(row, column)); }
    template <class V>
    __device__ __forceinline__ V& vec(int row, int column) const {
        return there(tile_.template vec<V>(row, column));
    }

  private:
    /// From the address that mapa gave, and not from this block's: of that nvcc knows that it is shared memory, and
    /// would access it by instructions that reach no other block's.
    template <class T>
    __device__ __forceinline__ T& there(T& element) const {
        const auto offset = reinterpret_cast<std::uint64_t>(&element) - reinterpret_cast<std::uint64_t>(&tile_(0, 0));
        return *reinterpret_cast<T*>(base_ + offset);
    }
    Tile tile_;
    std::uint64_t base_;
};

/// The tile of the cluster's block with that rank, which may be this one.
template <class Tile>
__device__ __forceinline__ TileOfBlock<Tile> in_block(const Tile& tile, int rank) {
    const auto here = reinterpret_cast<std::uint64_t>(&tile(0, 0));
    std::uint64_t there = here;
    if constexpr (kHasFeature<Feature::cluster>)
        asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(here), "r"(rank));
    else
        refuse(kNoClusters);
    return {tile, there};
}

/// Another block's barrier, at which threads of this one may arrive; waiting is for its own block alone.
class MbarrierOfBlock {
  public:
    /// in_block() makes them: of an address that all blocks of the cluster understand.
    __device__ __forceinline__ explicit MbarrierOfBlock(std::uint32_t address) : address_(address) {}

    /// One arrival: what this thread did before is done, and visible to who waits there by wait_in_cluster().
    __device__ __forceinline__ void arrive() const {
        if constexpr (kHasFeature<Feature::cluster>)
            asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" : : "r"(address_) : "memory");
        else
            refuse(kNoClusters);
    }

  private:
    std::uint32_t address_;
};

/// The barrier at the same place in the cluster's block with that rank, which may be this one.
__device__ __forceinline__ MbarrierOfBlock in_block(const Mbarrier& barrier, int rank) {
    std::uint32_t there = 0;
    if constexpr (kHasFeature<Feature::cluster>)
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(barrier.address()), "r"(rank));
    else
        refuse(kNoClusters);
    return MbarrierOfBlock(there);
}

}  // namespace cuda
}  // namespace simt
