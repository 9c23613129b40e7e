// Kernels of thread block clusters, for both machines.

#include "tests/simt/cluster.h"

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// out(block, 0) = the sum of `in` over the cluster, of which each block adds up its own part, and reads the parts of
/// the others; out(block, 1) = what the next block of the cluster wrote into this one's memory; then rank and size.
__global__ void __launch_bounds__(kClusterThreads)
    cluster_sum_kernel(simt::GlobalTensor<const float, 1> in, simt::GlobalTensor<float, 2> out) {
    simt::SharedArena arena;
    const auto part = arena.tile<float, 1, kClusterThreads>("part");
    const auto letter = arena.tile<float, 1, 4>("letter");
    const int thread = int(threadIdx.x), block = int(blockIdx.x), rank = simt::cluster_rank(),
              size = simt::cluster_size();
    part(0, thread) = in(block * kClusterThreads + thread);
    simt::cluster_sync();  // all have begun and written
    float sum = 0.0f;
    for (int b = 0; b < size; ++b) {
        const auto theirs = simt::in_block(part, (rank + b) % size);
        sum += float(theirs(0, thread));
    }
    if (thread < 4) {
        const auto next = simt::in_block(letter, (rank + 1) % size);
        next(0, thread) = float(100 * rank + thread);
    }
    simt::cluster_arrive();  // the letter is there, and all have read
    sum += 1.0f;             // needs nobody
    simt::cluster_wait();
    part(0, thread) = sum;
    __syncthreads();
    if (thread != 0) return;
    float total = 0.0f;
    for (int t = 0; t < kClusterThreads; ++t) total += float(part(0, t));
    const float4 read = letter.vec<float4>(0, 0);
    out(block, 0) = total;
    out(block, 1) = read.x + read.y + read.z + read.w;
    out(block, 2) = float(rank);
    out(block, 3) = float(size);
}

/// out(block, r, c) = in(r, c): all blocks of a cluster take the same tiles, one after the other. Of each tile every
/// block fetches a part, for all of them. A stage is free when the consumers of all blocks have told all producers.
template <int Size>
__global__ void __launch_bounds__(kClusterThreads)
    cluster_multicast_kernel(const __grid_constant__ simt::TensorMap<const float, 2> map,
                             simt::GlobalTensor<float, 3> out) {
    constexpr int R = kClusterRows, C = kClusterColumns, stages = 3, part = R / Size, consumers = kClusterThreads - 32;
    simt::SharedArena arena;
    const auto ring = arena.panels<float, stages * R, C, simt::Swizzle::b128>("ring");
    const auto full = arena.barriers<stages>("full"), empty = arena.barriers<stages>("empty");
    const int thread = int(threadIdx.x), block = int(blockIdx.x), rank = simt::cluster_rank(),
              tiles = int(out.extent(1)) / R;
    if (thread == 0) {
        for (int s = 0; s < stages; ++s) {
            full[s].init(1);
            empty[s].init(Size * consumers);
        }
        simt::publish_barriers();
    }
    simt::cluster_sync();  // every block's barriers are there
    simt::RingPosition<stages> at;
    if (thread == 0) {
        for (int j = 0; j < tiles; ++j, at.next()) {
            empty[at.stage].wait_in_cluster(at.parity ^ 1);
            full[at.stage].arrive_expecting(R * C * int(sizeof(float)));
            simt::tma_load_for_cluster(ring.template rows_from<part>(at.stage * R + rank * part), map,
                                       {j * R + rank * part, 0}, full[at.stage], (1u << Size) - 1);
        }
    } else if (thread >= 32) {
        for (int j = 0; j < tiles; ++j, at.next()) {
            full[at.stage].wait(at.parity);
            const auto tile = ring.template rows_from<R>(at.stage * R);
            for (int i = thread - 32; i < R * C; i += consumers) {
                const float element = tile(i / C, i % C);
                out(block, j * R + i / C, i % C) = element;
            }
            for (int b = 0; b < Size; ++b) simt::in_block(empty[at.stage], b).arrive();
        }
    }
    simt::cluster_sync();  // no block ends while arrivals are on the way to it
}

/// out(i) = 2 in(i): the first block of a pair reads, and writes into two stages in the second one, which doubles.
__global__ void __launch_bounds__(kClusterThreads)
    cluster_stages_kernel(simt::GlobalTensor<const float, 1> in, simt::GlobalTensor<float, 1> out) {
    simt::SharedArena arena;
    const auto ring = arena.tile<float, 2, kClusterThreads>("ring");
    const auto full = arena.barriers<2>("full"), empty = arena.barriers<2>("empty");
    const int thread = int(threadIdx.x), rank = simt::cluster_rank(), n = int(in.extent(0));
    if (thread == 0) {
        for (int s = 0; s < 2; ++s) {
            full[s].init(kClusterThreads);
            empty[s].init(kClusterThreads);
        }
        simt::publish_barriers();
    }
    simt::cluster_sync();
    simt::RingPosition<2> at;
    for (int i = thread; i < n; i += kClusterThreads, at.next()) {
        if (rank == 0) {
            empty[at.stage].wait_in_cluster(at.parity ^ 1);
            const auto there = simt::in_block(ring, 1);
            const float element = in(i);
            there(at.stage, thread) = element;
            simt::in_block(full[at.stage], 1).arrive();
        } else {
            full[at.stage].wait_in_cluster(at.parity);
            const float element = ring(at.stage, kClusterThreads - 1 - thread);
            out(i - thread + kClusterThreads - 1 - thread) = 2.0f * element;
            simt::in_block(empty[at.stage], 0).arrive();
        }
    }
    simt::cluster_sync();
}

/// A launch in clusters: the attribute must live until it is done.
struct ClusterConfig {
    cudaLaunchAttribute attribute;
    cudaLaunchConfig_t config{};

    ClusterConfig(const ClusterTrial& t, std::size_t shared_bytes)
        : attribute(simt::cluster_dimension(unsigned(t.cluster))) {
        config.gridDim = dim3(unsigned(t.blocks));
        config.blockDim = dim3(kClusterThreads);
        config.dynamicSmemBytes = shared_bytes;
        config.stream = static_cast<cudaStream_t>(t.stream);
        config.attrs = &attribute;
        config.numAttrs = 1;
    }
    ClusterConfig(const ClusterConfig&) = delete;
    ClusterConfig& operator=(const ClusterConfig&) = delete;
};

void launch_cluster_sum(const ClusterTrial& t) {
    const ClusterConfig c(t, simt::shared_bytes<float>(1, kClusterThreads) + 16);
    simt::launch("cluster_sum_kernel", c.config, cluster_sum_kernel, simt::global_tensor<const float, 1>(t.in),
                 simt::global_tensor<float, 2>(t.out));
}

template <int Size>
void launch_multicast(const ClusterTrial& t) {
    const ClusterConfig c(t, simt::panel_bytes<float>(3 * kClusterRows, kClusterColumns) + 2 * 32);
    simt::launch("cluster_multicast_kernel", c.config, cluster_multicast_kernel<Size>,
                 simt::tile_map<const float, 2, kClusterRows / Size, kClusterColumns, simt::Swizzle::b128>(t.in),
                 simt::global_tensor<float, 3>(t.out));
}

void launch_cluster_multicast(const ClusterTrial& t) {
    if (t.cluster == 1) launch_multicast<1>(t);
    if (t.cluster == 2) launch_multicast<2>(t);
    if (t.cluster == 4) launch_multicast<4>(t);
    if (t.cluster == 8) launch_multicast<8>(t);
}

void launch_cluster_stages(const ClusterTrial& t) {
    const ClusterConfig c(t, simt::shared_bytes<float>(2, kClusterThreads) + 32);
    simt::launch("cluster_stages_kernel", c.config, cluster_stages_kernel, simt::global_tensor<const float, 1>(t.in),
                 simt::global_tensor<float, 1>(t.out));
}

}  // namespace ladder::SIMT_MACHINE
