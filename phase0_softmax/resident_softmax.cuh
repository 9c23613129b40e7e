#pragma once

#include "common/attention/arguments.h"
#include "common/attention/dispatch.cuh"
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
///     57344 floats and a few. Beyond that, registers hold 32768 floats beside it. What fits nowhere is read twice, as
///     before, but the L2 cache is told to keep it, and nothing else, until then;
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
///   registers, with 32 warps and floats that do not fit: the next 8 chunks of each thread, 128 KiB in all
///   global  reads the kept columns once, the others twice; writes N
// clang-format on

inline constexpr int kCopiesAhead = 8;   ///< chunks that a thread has under way to shared memory
inline constexpr int kUnkeptAtOnce = 2;  ///< and of those that are kept nowhere: registers have no room for more

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

/// Calls use(column, scores) for a batch of the thread's chunks that are kept nowhere, from column `first` on, once all
/// of them have been asked for.
template <simt::Reuse reuse, class T, class Column, class Use>
__device__ __forceinline__ void visit_unkept(const simt::GlobalTensor<const T, 2>& x, std::int64_t row, Column first,
                                             int step, Use&& use) {
    using Chunk = simt::WideVector<T>;
    const Column N = Column(x.extent(1));
    Chunk scores[kUnkeptAtOnce];
#pragma unroll
    for (int n = 0; n < kUnkeptAtOnce; ++n)
        if (first + n * step < N) scores[n] = simt::read<reuse>(x.template vec<Chunk>(row, first + n * step));
#pragma unroll
    for (int n = 0; n < kUnkeptAtOnce; ++n)
        if (first + n * step < N) use(first + n * step, scores[n]);
}

/// For longer rows: `kept_columns` in shared memory, `Beside` chunks a thread in registers.
template <class T, int Warps, int Beside>
__global__ void __launch_bounds__(32 * Warps) resident_softmax_kernel(SoftmaxTensors<T> t, int kept_columns) {
    using Chunk = simt::WideVector<T>;
    using simt::CopyCache, simt::Reuse;
    // Where much is read twice, the L2 cache is told what is not: it is to keep the rest.
    constexpr Reuse once = Beside > 0 ? Reuse::none : Reuse::unknown, twice = Beside > 0 ? Reuse::soon : Reuse::unknown;
    using Column = std::conditional_t<(Beside > 0), int, std::int64_t>;  // 64 bits would take the registers of a chunk
    constexpr int width = simt::kVectorWidth<T>, step = 32 * Warps * width;
    const std::int64_t row = blockIdx.x;
    const Column N = Column(t.x.extent(1));
    const int first = int(threadIdx.x) * width, first_beside = kept_columns + first;

    simt::SharedArena arena;
    const auto states = arena.tile<SoftmaxState, 1, Warps>("states");
    const auto kept = arena.matrix<T>("kept", 1, kept_columns);

    Chunk beside[Beside > 0 ? Beside : 1];
#pragma unroll
    for (int n = 0; n < Beside; ++n)
        if (first_beside + n * step < N)
            beside[n] = simt::read<once>(t.x.template vec<Chunk>(row, first_beside + n * step));

    // Begins to copy the chunk at column j. Where there is none to keep, the group is empty, and still counts below.
    const auto fetch = [&](int j) {
        if (j < kept_columns)
            simt::copy_async<CopyCache::l2_only, once>(kept.template vec<Chunk>(0, j), t.x.template vec<Chunk>(row, j));
        simt::commit_copies();
    };
#pragma unroll
    for (int n = 0; n < kCopiesAhead; ++n) fetch(first + n * step);

    SoftmaxState state;
    for (int j = first; j < kept_columns; j += step) {
        fetch(j + kCopiesAhead * step);
        simt::wait_copies<kCopiesAhead>();  // all but the newest eight, so the chunk at j is there. Its thread alone
                                            // reads it: no barrier is needed
        const Chunk scores = kept.template vec<Chunk>(0, j);
        state = extended(state, scores);
        watch_scores(row, j, scores);
    }
#pragma unroll
    for (int n = 0; n < Beside; ++n) {
        if (first_beside + n * step >= N) continue;
        state = extended(state, beside[n]);
        watch_scores(row, first_beside + n * step, beside[n]);
    }
    constexpr int batch = kUnkeptAtOnce * step;
    const Column unkept = kept_columns + Column{Beside} * step,
                 batches = N > unkept ? (N - unkept + batch - 1) / batch : 0;
#pragma unroll 1
    for (Column b = 0; b < batches; ++b)
        visit_unkept<twice>(t.x, row, unkept + first + b * batch, step, [&](Column j, const Chunk& scores) {
            state = extended(state, scores);
            watch_scores(row, j, scores);
        });
    state = merge_across_block(state, states);
    watch_state(row, state.m, state.l);

    const SoftmaxWeight weight(state);
    const auto write = [&](Column j, Chunk scores) {
        simt::write<once>(t.y.template vec<Chunk>(row, j), weights_of(weight, scores));
    };
#pragma unroll 1
    for (Column b = batches - 1; b >= 0; --b)  // what was read last is the likeliest to be there
        visit_unkept<once>(t.x, row, unkept + first + b * batch, step, write);
#pragma unroll
    for (int n = 0; n < Beside; ++n)
        if (first_beside + n * step < N) write(first_beside + n * step, beside[n]);
#pragma unroll 2  // with four, the compiler's own choice, the first weights are on their way later
    for (int j = first; j < kept_columns; j += step) write(j, kept.template vec<Chunk>(0, j));
}

/// Columns that are kept once, the others twice.
GlobalBytes resident_softmax_bytes(const ResidentSoftmaxArguments& a) {
    GlobalBytes bytes;
    with_element_type(a.x.type, [&]<class T>(std::type_identity<T>) {
        const std::int64_t read_again = a.columns() - a.plan.kept_columns - a.plan.columns_beside;
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
            auto kernel = a.plan.warps == kWarpsWithSharedMemory ? resident_softmax_kernel<T, kWarpsWithSharedMemory, 0>
                                                                 : resident_softmax_kernel<T, kMostWarps, 0>;
            if constexpr (sizeof(T) == 4)
                if (a.plan.keep == Keep::both) kernel = resident_softmax_kernel<T, kMostWarps, kChunksInRegisters>;
            simt::launch("resident_softmax_kernel", config, kernel, tensors, a.plan.kept_columns);
        }
    });
}

}  // namespace ladder::SIMT_MACHINE
