#pragma once

#include <string>

#include "common/simt/machine/block.h"
#include "common/simt/sync/mbarrier_cpu.h"

// What a cluster's blocks do besides touching each other's tiles, for both CPU machines. What each function does is
// documented with the GPU's version, in cluster_cuda.h.

namespace simt {
inline namespace SIMT_NAMESPACE {

/// The cluster of the running block. Diagnoses a launch that has none.
inline Cluster& running_cluster(const char* call, SourceSite site) {
    Block& block = Block::current();
    block.require_feature(Feature::cluster, site);
    if (!block.cluster()) [[unlikely]]
        block.fail({.fault = Fault::cluster_misuse,
                    .first = {block.thread(), site},
                    .what = "thread " + std::to_string(block.thread()) + " calls " + call +
                            " in a launch that has no clusters",
                    .advice = "launch with the attribute cluster_dimension(); one block is a cluster, too"});
    return *block.cluster();
}

/// See simt::cuda::cluster_rank.
inline int cluster_rank(SourceSite site = SourceSite::here()) {
    running_cluster("cluster_rank()", site);
    return Block::current().rank();
}
/// See simt::cuda::cluster_size.
inline int cluster_size(SourceSite site = SourceSite::here()) { return running_cluster("cluster_size()", site).size(); }

/// See simt::cuda::cluster_arrive.
inline void cluster_arrive(SourceSite site = SourceSite::here()) {
    running_cluster("cluster_arrive()", site).arrive(site);
    Block::current().let_cluster_go_first();
}
/// See simt::cuda::cluster_wait.
inline void cluster_wait(SourceSite site = SourceSite::here()) { running_cluster("cluster_wait()", site).wait(site); }
/// See simt::cuda::cluster_sync.
inline void cluster_sync(SourceSite site = SourceSite::here()) {
    Cluster& cluster = running_cluster("cluster_sync()", site);
    cluster.arrive(site);
    cluster.wait(site);
}

/// See simt::cuda::MbarrierOfBlock.
class MbarrierOfBlock {
  public:
    MbarrierOfBlock(Mbarrier barrier, int rank) : barrier_(barrier), rank_(rank) {}
    void arrive(SourceSite site = SourceSite::here()) const {
        const std::string what = "arrives at " + barrier_.name();
        Block& block = running_cluster("in_block()", site).visit(rank_, what, site);
        block.companion<Mbarriers>().arrive(barrier_.offset(), site);
        Block::current().let_cluster_go_first();
    }

  private:
    Mbarrier barrier_;
    int rank_;
};

/// See simt::cuda::in_block.
inline MbarrierOfBlock in_block(const Mbarrier& barrier, int rank) { return {barrier, rank}; }

}  // namespace SIMT_NAMESPACE
}  // namespace simt
