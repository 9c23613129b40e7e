#pragma once

#include "common/attention/dispatch.cuh"
#include "common/attention/global_bytes.h"
#include "common/attention/watch.cuh"
#include "phase0_softmax/softmax_state.cuh"
#include "phase0_softmax/softmax_tensors.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// Softmax over the rows of a matrix, the next step: block_softmax for rows that stay on the chip between its two passes.
///
/// Two passes there must be (README.md, section 4, proves it), but the second need not go to global memory. Changed since
/// softmax.cuh:
///
///   - the first pass keeps the row. Up to 32 KiB of it fit the registers of a block. Shared memory holds more: on an H100
///     57344 floats and a few. What fits nowhere is read twice, as before;
///   - a thread has eight chunks of 16 bytes under way before it needs the first: memory is kept busy. In shared memory
///     they are asynchronous copies;
///   - a block has as many warps as its row is worth, so that several blocks share a multiprocessor where they can, and
///     one computes while another waits;
///   - one exponential for each score and one for each chunk; and e^x is 2^(x log2 e), in two instructions.
///
///   grid    x = rows       block  1 to 8 warps with the row in registers, 16 or 32 with it in shared memory
///           thread k owns chunk k, k + threads, …; a chunk is 16 bytes, and nobody else touches it
///   shared  states [1, warps]  warps 8            one (m, l) per warp
///           kept   [1, kept]   kept sizeof(T)     the first columns of the row: all, or what the device has room for
///   global  reads the kept columns once, the others twice; writes N
// clang-format on

inline constexpr int kCopiesAhead = 8;  ///< chunks that a thread has under way to shared memory

/// The state after the scores of one more chunk. They are taken under the new maximum at once; what was known is
/// brought to it.
template <class T, int Width>
__device__ __forceinline__ SoftmaxState extended(SoftmaxState state, const simt::Vector<T, Width>& chunk) {
    float m = state.m;
#pragma unroll
    for (int e = 0; e < Width; ++e) m = fmaxf(m, float(chunk.element[e]));
    const float base = safe_maximum(m);
    float l = 0.0f;
#pragma unroll
    for (int e = 0; e < Width; ++e) l += fast_exp(float(chunk.element[e]) - base);
    return {m, state.l * fast_exp(state.m - base) + l};
}

/// The weights of a chunk.
template <class T, int Width>
__device__ __forceinline__ simt::Vector<T, Width> weights_of(const SoftmaxWeight& weight,
                                                             const simt::Vector<T, Width>& scores) {
    simt::Vector<T, Width> weights;
#pragma unroll
    for (int e = 0; e < Width; ++e) weights.element[e] = T(weight(float(scores.element[e])));
    return weights;
}

/// For rows of up to 256 chunks a warp. Here and below, each row of x and y starts and ends at a multiple of 16 bytes.
template <class T, int Warps>
__global__ void __launch_bounds__(32 * Warps) register_softmax_kernel(SoftmaxTensors<T> t) {
    using Chunk = simt::WideVector<T>;
    constexpr int width = simt::kVectorWidth<T>, step = 32 * Warps * width;
    const std::int64_t row = blockIdx.x;
    const int N = int(t.x.extent(1)), first = int(threadIdx.x) * width;

    simt::SharedArena arena;
    const auto states = arena.tile<SoftmaxState, 1, Warps>("states");

    Chunk kept[kChunksInRegisters];
#pragma unroll
    for (int n = 0; n < kChunksInRegisters; ++n)
        if (first + n * step < N) kept[n] = t.x.template vec<Chunk>(row, first + n * step);

    SoftmaxState state;
#pragma unroll
    for (int n = 0; n < kChunksInRegisters; ++n) {
        if (first + n * step >= N) continue;
        state = extended(state, kept[n]);
        watch_scores(row, first + n * step, kept[n]);
    }
    state = merge_across_block(state, states);
    watch_state(row, state.m, state.l);

    const SoftmaxWeight weight(state);
#pragma unroll
    for (int n = 0; n < kChunksInRegisters; ++n)
        if (first + n * step < N) t.y.template vec<Chunk>(row, first + n * step) = weights_of(weight, kept[n]);
}

/// For longer rows.
template <class T, int Warps>
__global__ void __launch_bounds__(32 * Warps) resident_softmax_kernel(SoftmaxTensors<T> t, int kept_columns) {
    using Chunk = simt::WideVector<T>;
    constexpr int width = simt::kVectorWidth<T>, step = 32 * Warps * width;
    const std::int64_t row = blockIdx.x, N = t.x.extent(1);
    const int first = int(threadIdx.x) * width;

    simt::SharedArena arena;
    const auto states = arena.tile<SoftmaxState, 1, Warps>("states");
    const auto kept = arena.matrix<T>("kept", 1, kept_columns);

    // Begins to copy the chunk at column j. Where there is none to keep, the group is empty, and still counts below.
    const auto fetch = [&](int j) {
        if (j < kept_columns) simt::copy_async(kept.template vec<Chunk>(0, j), t.x.template vec<Chunk>(row, j));
        simt::commit_copies();
    };
#pragma unroll
    for (int n = 0; n < kCopiesAhead; ++n) fetch(first + n * step);

    SoftmaxState state;
    int j = first;
    for (; j < kept_columns; j += step) {
        fetch(j + kCopiesAhead * step);
        simt::wait_copies<kCopiesAhead>();  // all but the newest eight, so the chunk at j is there. Its thread alone
                                            // reads it: no barrier is needed
        const Chunk scores = kept.template vec<Chunk>(0, j);
        state = extended(state, scores);
        watch_scores(row, j, scores);
    }
    std::int64_t further = j;  // what is not kept
    for (; further < N; further += step) {
        const Chunk scores = t.x.template vec<Chunk>(row, further);
        state = extended(state, scores);
        watch_scores(row, further, scores);
    }
    state = merge_across_block(state, states);
    watch_state(row, state.m, state.l);

    const SoftmaxWeight weight(state);
    for (further -= step; further >= j; further -= step) {  // what was read last is the likeliest to be in the L2 cache
        const Chunk scores = t.x.template vec<Chunk>(row, further);
        t.y.template vec<Chunk>(row, further) = weights_of(weight, scores);
    }
#pragma unroll 2  // with four, the compiler's own choice, the first weights are on their way later
    for (j = first; j < kept_columns; j += step) {
        const Chunk scores = kept.template vec<Chunk>(0, j);
        t.y.template vec<Chunk>(row, j) = weights_of(weight, scores);
    }
}

/// Kept columns once, the others twice.
GlobalBytes resident_softmax_bytes(const ResidentSoftmaxArguments& a) {
    GlobalBytes bytes;
    with_element_type(a.x.type, [&]<class T>(std::type_identity<T>) {
        const std::int64_t read_again = a.columns() - a.plan.kept_columns;
        bytes.written = std::uint64_t(a.rows()) * std::uint64_t(a.columns()) * sizeof(T);
        bytes.read = bytes.written + std::uint64_t(a.rows()) * std::uint64_t(read_again) * sizeof(T);
    });
    return bytes;
}

/// Launches the kernel that the plan says, compiled for the problem's dtype and the plan's number of warps.
void launch_resident_softmax(const ResidentSoftmaxArguments& a) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(unsigned(a.rows()));
    config.blockDim = dim3(32 * a.plan.warps);
    config.dynamicSmemBytes = a.plan.shared_bytes;
    config.stream = static_cast<cudaStream_t>(a.stream);

    with_element_type(a.x.type, [&]<class T>(std::type_identity<T>) {
        const SoftmaxTensors<T> tensors = softmax_tensors<T>(a);
        if (a.plan.keep == Keep::registers) {
            const auto kernel = a.plan.warps == 1   ? register_softmax_kernel<T, 1>
                                : a.plan.warps == 2 ? register_softmax_kernel<T, 2>
                                : a.plan.warps == 4 ? register_softmax_kernel<T, 4>
                                                    : register_softmax_kernel<T, kMostWarpsWithRegisters>;
            simt::launch("register_softmax_kernel", config, kernel, tensors);
        } else {
            const auto kernel = a.plan.warps == kWarpsWithSharedMemory
                                    ? resident_softmax_kernel<T, kWarpsWithSharedMemory>
                                    : resident_softmax_kernel<T, kMostWarps>;
            simt::launch("resident_softmax_kernel", config, kernel, tensors, a.plan.kept_columns);
        }
    });
}

}  // namespace ladder::SIMT_MACHINE
