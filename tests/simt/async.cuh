// A kernel that moves a matrix through shared memory with cp.async, for both machines.

#include "tests/simt/async.h"

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

template <class T, int copy_bytes, bool through_l1, int stages>
__global__ void __launch_bounds__(kPipelineThreads)
    pipeline_kernel(simt::GlobalTensor<const T, 2> in, simt::GlobalTensor<T, 2> out) {
    constexpr int R = kPipelineRows, C = kPipelineColumns, width = copy_bytes / int(sizeof(T));
    constexpr auto cache = through_l1 ? simt::CopyCache::l1_and_l2 : simt::CopyCache::automatic;
    using Piece = simt::Vector<T, width>;
    const int thread = int(threadIdx.x), tiles = int(out.extent(0)) / R;
    const auto ring = simt::SharedArena().tile<T, stages * R, C>("ring");

    const auto fetch = [&](int j) {
        if (j >= tiles) return;
        for (int i = thread; i < R * C / width; i += kPipelineThreads) {
            const int r = i / (C / width), c = i % (C / width) * width;
            simt::copy_async_or_zero<cache>(ring.template vec<Piece>(j % stages * R + r, c), in, j * R + r, c);
        }
    };

    for (int j = 0; j < stages - 1; ++j) {
        fetch(j);
        simt::commit_copies();
    }
    for (int j = 0; j < tiles; ++j) {
        fetch(j + stages - 1);
        simt::commit_copies();            // an empty group at the end, so that the count below is always right
        simt::wait_copies<stages - 1>();  // this thread's part of tile j has arrived
        __syncthreads();                  // everyone's part has
        for (int i = thread; i < R * C; i += kPipelineThreads) {
            // Whoever stores an element did not copy it.
            const int r = R - 1 - i / C, c = i % C;
            const T element = ring(j % stages * R + r, c);
            out(j * R + r, c) = element;
        }
        __syncthreads();  // everyone is done with tile j before the next copies overwrite it
    }
}

template <class T, int copy_bytes, bool through_l1, int stages>
void launch_pipeline(const PipelineTrial& t) {
    const cudaLaunchConfig_t config{.gridDim = dim3(1),
                                    .blockDim = dim3(kPipelineThreads),
                                    .dynamicSmemBytes = simt::shared_bytes<T>(stages * kPipelineRows, kPipelineColumns),
                                    .stream = static_cast<cudaStream_t>(t.stream)};
    simt::launch("pipeline_kernel", config, pipeline_kernel<T, copy_bytes, through_l1, stages>,
                 simt::global_tensor<const T, 2>(t.in), simt::global_tensor<T, 2>(t.out));
}

template <class T, int copy_bytes, bool through_l1>
void launch_pipeline(const PipelineTrial& t) {
    if (t.stages == 1) launch_pipeline<T, copy_bytes, through_l1, 1>(t);
    if (t.stages == 2) launch_pipeline<T, copy_bytes, through_l1, 2>(t);
    if (t.stages == 3) launch_pipeline<T, copy_bytes, through_l1, 3>(t);
}

template <class T>
void launch_pipeline(const PipelineTrial& t) {
    if (t.copy_bytes == 4) launch_pipeline<T, 4, false>(t);
    if (t.copy_bytes == 8) launch_pipeline<T, 8, false>(t);
    if (t.copy_bytes == 16 && t.through_l1) launch_pipeline<T, 16, true>(t);
    if (t.copy_bytes == 16 && !t.through_l1) launch_pipeline<T, 16, false>(t);
}

void launch_pipeline(const PipelineTrial& t) {
    if (t.element_bytes == 2) launch_pipeline<std::uint16_t>(t);
    if (t.element_bytes == 4) launch_pipeline<std::uint32_t>(t);
}

/// A plain copy of in [32, 4] of floats to out, a row for each thread, with copy_async and without zeros.
__global__ void plain_copy_kernel(simt::GlobalTensor<const float, 2> in, simt::GlobalTensor<float, 2> out) {
    const int thread = int(threadIdx.x);
    const auto tile = simt::SharedArena().tile<float, 32, 4>("tile");
    simt::copy_async(tile.vec<float4>(thread, 0), in.vec<float4>(thread, 0));
    simt::wait_all_copies();
    __syncwarp();  // the neighbour's row has arrived
    for (int c = 0; c < 4; ++c) out(thread, c) = tile(thread ^ 1, c);
}

void launch_plain_copy(const PipelineTrial& t) {
    const cudaLaunchConfig_t config{.gridDim = dim3(1),
                                    .blockDim = dim3(32),
                                    .dynamicSmemBytes = simt::shared_bytes<float>(32, 4),
                                    .stream = static_cast<cudaStream_t>(t.stream)};
    simt::launch("plain_copy_kernel", config, plain_copy_kernel, simt::global_tensor<const float, 2>(t.in),
                 simt::global_tensor<float, 2>(t.out));
}

}  // namespace ladder::SIMT_MACHINE
