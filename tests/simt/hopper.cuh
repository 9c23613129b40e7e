// A kernel with an instruction that sm_90a has and sm_90 has not: nvcc compiles it for nothing else (HOPPER_KERNELS).

#include "tests/simt/hopper.h"

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

#if defined(__CUDACC__)
__device__ __forceinline__ void fence_registers() {
    static_assert(simt::kHasFeature<simt::Feature::wgmma>, "this is compiled for an architecture without wgmma");
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
#else
inline void fence_registers() {}
#endif

__global__ void __launch_bounds__(128) fenced_squares_kernel(simt::GlobalTensor<int, 1> out) {
    const int thread = int(threadIdx.x);
    fence_registers();
    out(thread) = thread * thread;
}

void launch_fenced_squares(const FencedSquares& a) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(1);
    config.blockDim = dim3(128);
    config.stream = static_cast<cudaStream_t>(a.stream);
    simt::launch("fenced_squares_kernel", config, fenced_squares_kernel, simt::global_tensor<int, 1>(a.out));
}

}  // namespace ladder::SIMT_MACHINE
