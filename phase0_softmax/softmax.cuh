#pragma once

#include "common/attention/arguments.h"
#include "common/attention/dispatch.cuh"
#include "common/attention/warp_reduce.cuh"
#include "common/attention/watch.cuh"
#include "phase0_softmax/softmax_state.cuh"
#include "phase0_softmax/softmax_tensors.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// Softmax over the rows of a matrix, three times: y_j = exp(x_j - m) / l, with m = max_j x_j and l = sum_j exp(x_j - m).
///
///   safe_softmax    three passes: maximum, sum, write. The textbook.
///   online_softmax  two passes: maximum and sum together, then write (Milakov and Gimelshein 2018, Algorithm 3).
///                   The sum is corrected whenever the maximum moves.
///   block_softmax   the same two passes, but many warps share a row, and 16 bytes are read at a time
///
/// Who owns what:
///
///   safe, online    grid   ceil(rows / 4)      block  128 threads = 4 warps, each with a row of its own
///                   lane k reads columns k, k + 32, k + 64, …: neighbours read neighbours
///                   shared nothing; lanes exchange by shuffles
///
///   block           grid   rows                block  512 threads = 16 warps, all on one row
///                   thread k reads chunk k, k + 512, …; a chunk is 16 bytes where the rows allow, else one element
///                   shared 16 states (m, l), one per warp = 128 bytes
///
///   global          reads N elements per pass and row: 3 N or 2 N; writes N
// clang-format on

inline constexpr int kRowsPerBlock = 4;             ///< safe and online: one warp for each
inline constexpr int kRowThreads = 512;             ///< block: threads that share a row
inline constexpr int kRowWarps = kRowThreads / 32;  ///< and their warps

template <class T>
__global__ void __launch_bounds__(32 * kRowsPerBlock) safe_softmax_kernel(SoftmaxTensors<T> t) {
    const std::int64_t row = std::int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / 32;
    if (row >= t.x.extent(0)) return;  // all 32 lanes alike, so no shuffle below misses one
    const auto x = t.x.slice(row);
    const auto y = t.y.slice(row);
    const std::int64_t N = x.extent(0), lane = threadIdx.x % 32;

    float m = -INFINITY;
    for (std::int64_t j = lane; j < N; j += 32) {
        const float score = float(x(j));
        m = fmaxf(m, score);
        watch_score(row, j, score);
    }
    m = warp_max(m);
    watch_maximum(row, m);

    float l = 0.0f;
    for (std::int64_t j = lane; j < N;) {
        float part = 0.0f;
        for (int n = 0; n < kTermsPerPart && j < N; ++n, j += 32) part += __expf(float(x(j)) - safe_maximum(m));
        l += part;
    }
    l = warp_sum(l);
    watch_sum(row, l);

    const SoftmaxWeight weight({m, l});
    for (std::int64_t j = lane; j < N; j += 32) y(j) = T(weight(float(x(j))));
}

template <class T>
__global__ void __launch_bounds__(32 * kRowsPerBlock) online_softmax_kernel(SoftmaxTensors<T> t) {
    const std::int64_t row = std::int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / 32;
    if (row >= t.x.extent(0)) return;  // all 32 lanes alike, so no shuffle below misses one
    const auto x = t.x.slice(row);
    const auto y = t.y.slice(row);
    const std::int64_t N = x.extent(0), lane = threadIdx.x % 32;

    SoftmaxState state;
    for (std::int64_t j = lane; j < N;) {
        SoftmaxState part;
        for (int n = 0; n < kTermsPerPart && j < N; ++n, j += 32) {
            const float score = float(x(j));
            part = merge(part, {score, 1.0f});
            watch_score(row, j, score);
            watch_state(row, part.m, part.l, int(lane));
        }
        state = merge(state, part);
    }
    state = merge_across_warp(state);

    const SoftmaxWeight weight(state);
    for (std::int64_t j = lane; j < N; j += 32) y(j) = T(weight(float(x(j))));
}

/// The state of a few scores at once: one common maximum, so one exp for each, not two.
template <class T, int Width>
__device__ SoftmaxState state_of(const simt::Vector<T, Width>& x) {
    SoftmaxState state;
#pragma unroll
    for (int e = 0; e < Width; ++e) state.m = fmaxf(state.m, float(x.element[e]));
#pragma unroll
    for (int e = 0; e < Width; ++e) state.l += __expf(float(x.element[e]) - safe_maximum(state.m));
    return state;
}

/// `Width` elements make a chunk, which one thread reads at once.
template <class T, int Width>
__global__ void __launch_bounds__(kRowThreads) block_softmax_kernel(SoftmaxTensors<T> t) {
    using Chunk = simt::Vector<T, Width>;
    constexpr std::int64_t step = std::int64_t{kRowThreads} * Width;
    const std::int64_t row = blockIdx.x, N = t.x.extent(1), first = std::int64_t{threadIdx.x} * Width;

    simt::SharedArena arena;
    const auto states = arena.tile<SoftmaxState, 1, kRowWarps>("states");

    SoftmaxState state;
    for (std::int64_t j = first; j < N; j += step) {
        const Chunk scores = t.x.template vec<Chunk>(row, j);
        state = merge(state, state_of(scores));
        watch_scores(row, j, scores);
    }
    state = merge_across_block(state, states);
    watch_state(row, state.m, state.l);

    const SoftmaxWeight weight(state);
    for (std::int64_t j = first; j < N; j += step) {
        const Chunk scores = t.x.template vec<Chunk>(row, j);
        Chunk weights;
#pragma unroll
        for (int e = 0; e < Width; ++e) weights.element[e] = T(weight(float(scores.element[e])));
        t.y.template vec<Chunk>(row, j) = weights;
    }
}

/// Every element, once for each pass that reads and once for the one that writes.
inline GlobalBytes softmax_bytes(const SoftmaxArguments& a, int passes_that_read) {
    GlobalBytes bytes;
    with_element_type(a.x.type, [&]<class T>(std::type_identity<T>) {
        bytes.written = std::uint64_t(a.rows()) * std::uint64_t(a.columns()) * sizeof(T);
        bytes.read = passes_that_read * bytes.written;
    });
    return bytes;
}

/// Three passes read, or two.
GlobalBytes safe_softmax_bytes(const SoftmaxArguments& a) { return softmax_bytes(a, 3); }
GlobalBytes online_softmax_bytes(const SoftmaxArguments& a) { return softmax_bytes(a, 2); }
GlobalBytes block_plain_softmax_bytes(const SoftmaxArguments& a) { return softmax_bytes(a, 2); }

/// The launch of the safe and of the online kernel.
inline cudaLaunchConfig_t one_warp_per_row(const SoftmaxArguments& a) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(ceil_div(a.rows(), kRowsPerBlock));
    config.blockDim = dim3(32 * kRowsPerBlock);
    config.stream = static_cast<cudaStream_t>(a.stream);
    return config;
}

/// The launch of the block kernel.
inline cudaLaunchConfig_t one_block_per_row(const SoftmaxArguments& a) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(unsigned(a.rows()));
    config.blockDim = dim3(kRowThreads);
    config.dynamicSmemBytes = simt::shared_bytes<SoftmaxState>(1, kRowWarps);
    config.stream = static_cast<cudaStream_t>(a.stream);
    return config;
}

/// What the host entries call, on the machine that holds the tensors.
void launch_safe_softmax(const SoftmaxArguments& a) {
    with_element_type(a.x.type, [&]<class T>(std::type_identity<T>) {
        simt::launch("safe_softmax_kernel", one_warp_per_row(a), safe_softmax_kernel<T>, softmax_tensors<T>(a));
    });
}

/// Launches online_softmax_kernel for the matrix's dtype.
void launch_online_softmax(const SoftmaxArguments& a) {
    with_element_type(a.x.type, [&]<class T>(std::type_identity<T>) {
        simt::launch("online_softmax_kernel", one_warp_per_row(a), online_softmax_kernel<T>, softmax_tensors<T>(a));
    });
}

/// Launches block_softmax_kernel; with reads of 16 bytes where every row starts at a multiple of as many.
void launch_block_plain_softmax(const SoftmaxArguments& a) {
    const bool vectorized = a.x.rows_aligned_to_16_bytes() && a.y.rows_aligned_to_16_bytes();
    with_element_type(a.x.type, [&]<class T>(std::type_identity<T>) {
        const auto kernel = vectorized ? block_softmax_kernel<T, simt::kVectorWidth<T>> : block_softmax_kernel<T, 1>;
        simt::launch("block_softmax_kernel", one_block_per_row(a), kernel, softmax_tensors<T>(a));
    });
}

}  // namespace ladder::SIMT_MACHINE
