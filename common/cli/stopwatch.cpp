#include "common/cli/stopwatch.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <vector>

#ifdef LADDER_WITH_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#endif

namespace ladder::cli {

Timing time_once(const std::function<void()>& call) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    return {std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count(), 1};
}

#ifdef LADDER_WITH_CUDA
Timing time_on_gpu(const std::function<void()>& call, torch::Device device) {
    constexpr int kWarmUps = 3, kRuns = 21;
    const c10::cuda::CUDAGuard guard(device);
    for (int i = 0; i < kWarmUps; ++i) call();
    std::vector<double> milliseconds;
    for (int i = 0; i < kRuns; ++i) {
        at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
        begin.record();
        call();
        end.record();
        end.synchronize();
        milliseconds.push_back(begin.elapsed_time(end));
    }
    std::ranges::nth_element(milliseconds, milliseconds.begin() + kRuns / 2);
    return {milliseconds[kRuns / 2], kRuns};
}
#else
Timing time_on_gpu(const std::function<void()>&, torch::Device) {
    throw std::runtime_error("this build has no CUDA, so there is nothing to time on a GPU");
}
#endif

}  // namespace ladder::cli
