// A page of a kernel that lacks a barrier, as a student's would: what ./ladder trace writes when the machine objects.
//
//   trace_wrong_kernel FILE.html

#include <torch/torch.h>

#include <fstream>
#include <iostream>

#include "common/attention/machine.h"
#include "common/attention/watch.cuh"
#include "common/cli/trace/json.h"
#include "common/cli/trace/page.h"
#include "common/simt/simt.h"

namespace ladder {
namespace {

constexpr int kKeys = 64, kTile = 32;

/// Scores of one query, 32 keys at a time, each read by another thread than the one that fetched it.
void scores_without_a_barrier_kernel(simt::GlobalTensor<const float, 4> K) {
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
        // A __syncthreads() is missing here: the next tile overwrites what others still read.
    }
}

int run(const char* file) {
    const torch::Tensor k = torch::ones({1, 1, kKeys, 4});
    const auto launch = [&]() -> std::vector<torch::Tensor> {
        const cudaLaunchConfig_t config{
            .gridDim = dim3(1), .blockDim = dim3(kTile), .dynamicSmemBytes = kTile * 4 * sizeof(float)};
        simt::launch("scores_without_a_barrier_kernel", config, scores_without_a_barrier_kernel,
                     simt::global_tensor<const float, 4>(tensor_argument("K", k)));
        return {};
    };
    cli::Rung rung{};
    rung.kernel = "scores_without_a_barrier";
    rung.inputs = {{"k", k}};
    rung.run = launch;
    rung.check = [](const auto&) { return reference::Comparison{}; };
    const cli::TracedRun traced = cli::trace_rung(rung, {});
    std::cout << traced.words << '\n';
    std::ofstream(file) << cli::trace_page(cli::trace_json({&traced, 1}));
    return 0;
}

}  // namespace
}  // namespace ladder

int main(int, char** argv) { return ladder::run(argv[1]); }
