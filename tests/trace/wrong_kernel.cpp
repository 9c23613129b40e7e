// Pages of wrong kernels, as a student's would be: what ./ladder trace writes when the machine objects, and when the
// kernel runs to its end and the reference objects.
//
//   trace_wrong_kernel FILE.html            a kernel that lacks a barrier
//   trace_wrong_kernel FILE.html result     one that has it, and a wrong result

#include <fstream>
#include <iostream>

#include "common/attention/machine.h"
#include "common/attention/watch.cuh"
#include "common/cli/trace/json.h"
#include "common/cli/trace/page.h"
#include "common/simt/simt.h"
#include "common/torch/torch.h"

namespace ladder {
namespace {

constexpr int kKeys = 64, kTile = 32;

/// Scores of one query, 32 keys at a time, each read by another thread than the one that fetched it.
template <bool kSecondBarrier>
void wrong_kernel(simt::GlobalTensor<const float, 4> K) {
    simt::SharedArena arena;
    const auto K_j = arena.tile<float, kTile, 4>("K_j");
    const auto keys = K.slice(0, 0);
    const int thread = int(threadIdx.x);
    for (int first_key = 0; first_key < kKeys; first_key += kTile) {
        for (int c = 0; c < 4; ++c) K_j(thread, c) = float(keys(first_key + thread, c));
        __syncthreads();
        float score = 0.0f;
        for (int c = 0; c < 4; ++c) score += float(K_j(kTile - 1 - thread, c));
        cpu::watch_score(0, first_key + kTile - 1 - thread, score);
        // Without this one the next tile overwrites what others still read.
        if constexpr (kSecondBarrier) __syncthreads();
    }
}

template <bool kSecondBarrier>
int run(const char* file, const reference::Comparison& verdict) {
    const torch::Tensor k = at::ones({1, 1, kKeys, 4});
    const auto launch = [&]() -> std::vector<torch::Tensor> {
        const cudaLaunchConfig_t config{
            .gridDim = dim3(1), .blockDim = dim3(kTile), .dynamicSmemBytes = kTile * 4 * sizeof(float)};
        simt::launch("wrong_kernel", config, wrong_kernel<kSecondBarrier>,
                     simt::global_tensor<const float, 4>(tensor_argument("K", k)));
        return {};
    };
    Rung rung{};
    rung.kernel = "scores";
    rung.inputs = {{"k", k}};
    rung.run = launch;
    rung.check = [&](const auto&) { return verdict; };
    const cli::TracedRun traced = cli::trace_rung(rung, {});
    std::cout << traced.words << '\n';
    std::ofstream(file) << cli::trace_page(cli::trace_json({&traced, 1}));
    return 0;
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
    if (argc == 2) return ladder::run<false>(argv[1], {});
    return ladder::run<true>(
        argv[1],
        {.max_abs_error = 0.25, .bound = 1e-6, .report = "out: 1 of 64 elements wrong\n  worst at (b 0, h 0)"});
}
