// Kernels whose threads and blocks meet at atomics, for both machines.

#include "tests/simt/atomics.h"

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// How often each of the numbers from 0 to kBins - 1 is in `in`: first in each block, then in all.
__global__ void histogram_kernel(simt::GlobalTensor<const int, 1> in, simt::GlobalTensor<int, 1> out) {
    const auto bins = simt::SharedArena().tile<int, 1, kBins>("bins");
    const int thread = int(threadIdx.x), n = int(in.extent(0));
    for (int b = thread; b < kBins; b += kAtomicThreads) bins(0, b) = 0;
    __syncthreads();  // all bins are empty before anybody counts
    for (int i = int(blockIdx.x) * kAtomicThreads + thread; i < n; i += int(gridDim.x) * kAtomicThreads)
        simt::atomic_add(bins(0, in(i)), 1);
    __syncthreads();  // everybody has counted
    for (int b = thread; b < kBins; b += kAtomicThreads) simt::reduce_add(out(b), int(bins(0, b)));
}

/// out(0): the sum of floats; counter(0), (1): the largest of them as an integer, and how many threads came.
__global__ void sum_and_max_kernel(simt::GlobalTensor<const float, 1> in, simt::GlobalTensor<float, 1> out,
                                   simt::GlobalTensor<int, 1> counter) {
    const int i = int(blockIdx.x) * kAtomicThreads + int(threadIdx.x);
    if (i < int(in.extent(0))) {
        const float x = in(i);
        simt::atomic_add(out(0), x);
        simt::atomic_max(counter(0), int(x));
    }
    simt::reduce_add(counter(1), 1);
}

/// Each block leaves the sum of its part, and the last one to come adds them up: CUDA's sample threadFenceReduction.
template <bool with_fences>
__global__ void last_block_kernel(simt::GlobalTensor<const float, 1> in, simt::GlobalTensor<float, 1> out,
                                  simt::GlobalTensor<float, 1> partial, simt::GlobalTensor<int, 1> counter) {
    simt::SharedArena arena;
    const auto sum = arena.tile<float, 1, 1>("sum");
    const auto is_last = arena.tile<int, 1, 1>("is_last");
    const int thread = int(threadIdx.x), blocks = int(gridDim.x), n = int(in.extent(0));
    if (thread == 0) sum(0, 0) = 0.0f;
    __syncthreads();  // sum is empty before anybody adds
    for (int i = int(blockIdx.x) * kAtomicThreads + thread; i < n; i += blocks * kAtomicThreads)
        simt::atomic_add(sum(0, 0), float(in(i)));
    __syncthreads();  // everybody has added
    if (thread == 0) {
        partial(blockIdx.x) = sum(0, 0);
        int ticket;
        if constexpr (with_fences) {
            simt::fence();  // partial is there before the ticket is drawn
            ticket = simt::atomic_add(counter(0), 1);
            simt::fence();  // and read after it
        } else {
            ticket = simt::atomic_add<simt::Order::acq_rel>(counter(0), 1);
        }
        is_last(0, 0) = ticket == blocks - 1;
    }
    __syncthreads();  // the block knows whether it is the last one, and what thread 0 has acquired
    if (is_last(0, 0) == 0) return;
    if (thread == 0) {
        sum(0, 0) = 0.0f;
        counter(0) = 0;  // for the next launch: nobody else is left
    }
    __syncthreads();  // as above
    for (int b = thread; b < blocks; b += kAtomicThreads) simt::atomic_add(sum(0, 0), float(partial(b)));
    __syncthreads();  // as above
    if (thread == 0) out(0) = sum(0, 0);
}

/// out(i) = in(i) + 1: blocks draw tiles of kTileElements elements until there are none.
__global__ void tile_counter_kernel(simt::GlobalTensor<const int, 1> in, simt::GlobalTensor<int, 1> out,
                                    simt::GlobalTensor<int, 1> counter) {
    const auto drawn = simt::SharedArena().tile<int, 1, 1>("drawn");
    const int thread = int(threadIdx.x), n = int(in.extent(0));
    for (;;) {
        if (thread == 0) drawn(0, 0) = simt::atomic_add(counter(0), 1);
        __syncthreads();  // the tile is drawn before anybody asks for it
        const int first = int(drawn(0, 0)) * kTileElements;
        __syncthreads();  // everybody has asked before the next one is drawn
        if (first >= n) return;
        for (int i = first + thread; i < first + kTileElements && i < n; i += kAtomicThreads) out(i) = int(in(i)) + 1;
    }
}

/// Block b adds its element of `in` to what block b - 1 left in partial, and leaves the sum: hand over to hand, as
/// stream-K does with tiles that two blocks share. counter(0) is the flag: how many blocks are done. `backwards`: the
/// last block of the grid comes first, so that each waits for one that begins after it.
template <bool with_fences>
__global__ void chain_kernel(simt::GlobalTensor<const float, 1> in, simt::GlobalTensor<float, 1> out,
                             simt::GlobalTensor<float, 1> partial, simt::GlobalTensor<int, 1> counter, bool backwards) {
    const int thread = int(threadIdx.x), block = backwards ? int(gridDim.x) - 1 - int(blockIdx.x) : int(blockIdx.x);
    if (thread == 0) {
        if constexpr (with_fences) {
            while (simt::load_relaxed(counter(0)) != block) {
            }
            simt::fence();  // what block - 1 wrote is read after its flag was seen
        } else {
            while (simt::load_acquire(counter(0)) != block) {
            }
        }
    }
    __syncthreads();  // thread 0 has acquired for all
    // Other threads read and write than the one that acquires and releases.
    if (thread == 40) {
        const float before = block == 0 ? 0.0f : float(partial(block - 1));
        partial(block) = before + float(in(block));
        if (block == int(gridDim.x) - 1) out(0) = partial(block);
    }
    __syncthreads();  // partial is written before thread 0 says so
    if (thread == 0) {
        if constexpr (with_fences) {
            simt::fence();
            simt::store_relaxed(counter(0), block + 1);
        } else {
            simt::store_release(counter(0), block + 1);
        }
    }
}

/// out(0) counts how many threads claimed the first of the two, out(1) collects what exchanges of the second gave.
__global__ void claim_kernel(simt::GlobalTensor<int, 1> out, simt::GlobalTensor<int, 1> counter) {
    const int me = int(blockIdx.x) * kAtomicThreads + int(threadIdx.x) + 1;
    if (simt::atomic_compare_exchange(counter(0), 0, me) == 0) simt::reduce_add(out(0), 1);
    simt::reduce_add(out(1), simt::atomic_exchange(counter(1), me));
}

/// Numbers of 64 bits. out(0) to out(2): the sum, the largest and the smallest of in, first in each block; out(4): what
/// exchanges of out(5) gave.
template <simt::Order order>
__global__ void wide_kernel(simt::GlobalTensor<const Wide, 1> in, simt::GlobalTensor<Wide, 1> out) {
    const auto found = simt::SharedArena().tile<Wide, 1, 4>("found");
    const int thread = int(threadIdx.x), i = int(blockIdx.x) * kAtomicThreads + thread;
    if (thread < 4) found(0, thread) = thread == 2 ? ~Wide{0} : 0;
    __syncthreads();  // found is empty before anybody adds
    if (i < int(in.extent(0))) {
        const Wide x = in(i);
        simt::atomic_add(found(0, 0), x);
        simt::atomic_max(found(0, 1), x);
        simt::atomic_min(found(0, 2), x);
        simt::reduce_add(out(4), simt::atomic_exchange<order>(out(5), x));
    }
    __syncthreads();  // everybody has added
    if (thread > 0) return;
    simt::atomic_add<order>(out(0), Wide(found(0, 0)));
    simt::atomic_max<order>(out(1), Wide(found(0, 1)));
    simt::atomic_min<order>(out(2), Wide(found(0, 2)));
}

/// out(3): the sum of in, by compare-and-exchange.
template <simt::Order order>
__global__ void wide_exchange_kernel(simt::GlobalTensor<const Wide, 1> in, simt::GlobalTensor<Wide, 1> out) {
    const int i = int(blockIdx.x) * kAtomicThreads + int(threadIdx.x);
    if (i >= int(in.extent(0))) return;
    const Wide x = in(i);
    Wide before = simt::load_relaxed(out(3));
    for (Wide now; (now = simt::atomic_compare_exchange<order>(out(3), before, before + x)) != before;) before = now;
}

/// As chain_kernel, with a flag of 64 bits of which only the upper half changes. Thread 0 waits for the block before
/// and hands over to thread 40 by a fence of the block; that one hands over to the next block by a fence of the system.
__global__ void scopes_kernel(simt::GlobalTensor<const float, 1> in, simt::GlobalTensor<float, 1> out,
                              simt::GlobalTensor<float, 1> partial, simt::GlobalTensor<Wide, 1> counter) {
    const auto flag = simt::SharedArena().tile<int, 1, 1>("flag");
    const int thread = int(threadIdx.x), block = int(blockIdx.x);
    if (thread == 0) flag(0, 0) = 0;
    __syncthreads();  // the flag is down before anybody looks
    if (thread == 0) {
        while (simt::load_relaxed(counter(0)) != Wide(block) << 32) {
        }
        simt::fence_system();
        simt::fence_block();
        simt::store_relaxed(flag(0, 0), 1);
    }
    if (thread == 40) {
        while (simt::load_relaxed(flag(0, 0)) == 0) {
        }
        simt::fence_block();
        const float before = block == 0 ? 0.0f : float(partial(block - 1));
        partial(block) = before + float(in(block));
        if (block == int(gridDim.x) - 1) out(0) = partial(block);
        simt::fence_system();
        if (block % 2 == 0)
            simt::store_relaxed(counter(0), Wide(block + 1) << 32);
        else
            simt::store_release(counter(0), Wide(block + 1) << 32);
    }
}

cudaLaunchConfig_t config_of(const AtomicTrial& t, std::size_t shared_bytes = 0) {
    return {.gridDim = dim3(unsigned(t.blocks)),
            .blockDim = dim3(kAtomicThreads),
            .dynamicSmemBytes = shared_bytes,
            .stream = static_cast<cudaStream_t>(t.stream)};
}

void launch_histogram(const AtomicTrial& t) {
    simt::launch("histogram_kernel", config_of(t, simt::shared_bytes<int>(1, kBins)), histogram_kernel,
                 simt::global_tensor<const int, 1>(t.in), simt::global_tensor<int, 1>(t.out));
}

void launch_sum_and_max(const AtomicTrial& t) {
    simt::launch("sum_and_max_kernel", config_of(t), sum_and_max_kernel, simt::global_tensor<const float, 1>(t.in),
                 simt::global_tensor<float, 1>(t.out), simt::global_tensor<int, 1>(t.counter));
}

void launch_last_block(const AtomicTrial& t) {
    simt::launch("last_block_kernel", config_of(t, 32),
                 t.with_fences ? last_block_kernel<true> : last_block_kernel<false>,
                 simt::global_tensor<const float, 1>(t.in), simt::global_tensor<float, 1>(t.out),
                 simt::global_tensor<float, 1>(t.partial), simt::global_tensor<int, 1>(t.counter));
}

void launch_tile_counter(const AtomicTrial& t) {
    simt::launch("tile_counter_kernel", config_of(t, 16), tile_counter_kernel, simt::global_tensor<const int, 1>(t.in),
                 simt::global_tensor<int, 1>(t.out), simt::global_tensor<int, 1>(t.counter));
}

void launch_chain(const AtomicTrial& t) {
    simt::launch("chain_kernel", config_of(t), t.with_fences ? chain_kernel<true> : chain_kernel<false>,
                 simt::global_tensor<const float, 1>(t.in), simt::global_tensor<float, 1>(t.out),
                 simt::global_tensor<float, 1>(t.partial), simt::global_tensor<int, 1>(t.counter), t.backwards);
}

void launch_wide(const AtomicTrial& t) {
    simt::launch("wide_kernel", config_of(t, 32),
                 t.with_fences ? wide_kernel<simt::Order::relaxed>
                 : t.backwards ? wide_kernel<simt::Order::acquire>
                               : wide_kernel<simt::Order::acq_rel>,
                 simt::global_tensor<const Wide, 1>(t.in), simt::global_tensor<Wide, 1>(t.out));
}

void launch_wide_exchange(const AtomicTrial& t) {
    simt::launch("wide_exchange_kernel", config_of(t),
                 t.with_fences ? wide_exchange_kernel<simt::Order::release>
                 : t.backwards ? wide_exchange_kernel<simt::Order::acquire>
                               : wide_exchange_kernel<simt::Order::acq_rel>,
                 simt::global_tensor<const Wide, 1>(t.in), simt::global_tensor<Wide, 1>(t.out));
}

void launch_scopes(const AtomicTrial& t) {
    simt::launch("scopes_kernel", config_of(t, 16), scopes_kernel, simt::global_tensor<const float, 1>(t.in),
                 simt::global_tensor<float, 1>(t.out), simt::global_tensor<float, 1>(t.partial),
                 simt::global_tensor<Wide, 1>(t.counter));
}

void launch_claim(const AtomicTrial& t) {
    simt::launch("claim_kernel", config_of(t), claim_kernel, simt::global_tensor<int, 1>(t.out),
                 simt::global_tensor<int, 1>(t.counter));
}

}  // namespace ladder::SIMT_MACHINE
