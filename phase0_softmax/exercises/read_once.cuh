#pragma once

#include "common/attention/dispatch.cuh"
#include "phase0_softmax/softmax_arguments.h"
#include "phase0_softmax/softmax_state.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// Softmax that reads its input once.
///
/// Added to block_softmax_kernel of softmax.cuh, where the plan is written down: a block keeps its row in shared memory,
/// so that the second pass has no need of global memory. For plainness a thread takes one element at a time.
///
///   grid    rows       block  256 threads = 8 warps, all on one row; thread k takes elements k, k + 256, …
///   shared  8 states (m, l), one per warp = 64 bytes; the row: N sizeof(T) bytes, so N is limited
///   global  reads and writes N elements a row
// clang-format on

inline constexpr int kThreads = 256;          ///< of a block
inline constexpr int kWarps = kThreads / 32;  ///< and its warps

template <class T>
__global__ void __launch_bounds__(kThreads)
    read_once_kernel(simt::GlobalTensor<const T, 2> all_x, simt::GlobalTensor<T, 2> all_y) {
    const auto x = all_x.slice(blockIdx.x);
    const auto y = all_y.slice(blockIdx.x);
    const int N = int(x.extent(0));

    simt::SharedArena arena;
    const auto states = arena.tile<SoftmaxState, 1, kWarps>("states");
    // BEGIN SOLUTION keep_the_row: a place for the row in shared memory
    const auto row = arena.matrix<T>("row", 1, N);
    // END SOLUTION keep_the_row

    SoftmaxState state;
    for (int j = threadIdx.x; j < N; j += kThreads) {
        // BEGIN SOLUTION keep_the_row: what is read is kept
        const T score = x(j);
        row(0, j) = score;
        //= const T score = x(j);
        // END SOLUTION keep_the_row
        state = merge(state, {float(score), 1.0f});
    }
    state = merge_across_block(state, states);

    const SoftmaxWeight weight(state);
    // BEGIN SOLUTION keep_the_row: the second pass reads what was kept
    // Each thread reads the elements that it wrote itself, so no barrier is needed.
    for (int j = threadIdx.x; j < N; j += kThreads) y(j) = T(weight(float(row(0, j))));
    //= for (int j = threadIdx.x; j < N; j += kThreads) y(j) = T(weight(float(x(j))));
    // END SOLUTION keep_the_row
}

/// What a block asks for, for rows of N elements.
template <class T>
std::size_t shared_bytes_of([[maybe_unused]] std::int64_t N) {
    std::size_t bytes = simt::shared_bytes<SoftmaxState>(1, kWarps);
    // BEGIN SOLUTION keep_the_row: the bytes of the row
    bytes += simt::shared_bytes<T>(1, std::size_t(N));
    // END SOLUTION keep_the_row
    return bytes;
}

/// Launches the kernel, one block for each row.
void launch_read_once(const SoftmaxArguments& a) {
    with_element_type(a.x.type, [&]<class T>(std::type_identity<T>) {
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(unsigned(a.rows()));
        config.blockDim = dim3(kThreads);
        config.dynamicSmemBytes = shared_bytes_of<T>(a.columns());
        config.stream = static_cast<cudaStream_t>(a.stream);
        simt::launch("read_once_kernel", config, read_once_kernel<T>, simt::global_tensor<const T, 2>(a.x),
                     simt::global_tensor<T, 2>(a.y));
    });
}

}  // namespace ladder::SIMT_MACHINE
