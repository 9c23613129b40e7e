// The page of a kernel with a producer and consumers: what ./ladder trace writes of a ring of stages, of products and
// of a store under way.
//
//   trace_ring_kernel FILE.html
//   trace_ring_kernel FILE.html cluster     of two blocks that share tiles, instead

#include <fstream>
#include <iostream>

#include "common/attention/machine.h"
#include "common/cli/trace/json.h"
#include "common/cli/trace/page.h"
#include "common/simt/device/device_profile.h"
#include "common/simt/simt.h"
#include "common/torch/torch.h"

namespace ladder {
namespace {

constexpr int kTiles = 4, kStages = 2, kRows = 64, kColumns = 64, kTileBytes = kRows * kColumns * 2;
using Map = simt::TensorMap<const simt::f16, 2>;

/// O = K_3 K_3^T, after the products of the three tiles before: a fifth warp brings K_j, four multiply.
void ring_kernel(const __grid_constant__ Map K_map, const __grid_constant__ simt::TensorMap<simt::f16, 2> O_map) {
    simt::SharedArena arena;
    const auto K_ring = arena.panels<simt::f16, kRows * kStages, kColumns, simt::Swizzle::b128>("K_j");
    const auto O_i = arena.panels<simt::f16, kRows, kColumns, simt::Swizzle::b128>("O_i");
    const auto full = arena.barriers<kStages>("full"), empty = arena.barriers<kStages>("empty");
    if (threadIdx.x == 0) {
        for (int s = 0; s < kStages; ++s) {
            full[s].init(1);
            empty[s].init(4);
        }
        simt::publish_barriers();
    }
    __syncthreads();
    simt::RingPosition<kStages> at;
    if (threadIdx.x >= 128) {
        if (simt::elect_one())
            for (int j = 0; j < kTiles; ++j, at.next()) {
                empty[at.stage].wait(at.parity ^ 1);
                full[at.stage].arrive_expecting(kTileBytes);
                simt::tma_load(K_ring.rows_from<kRows>(kRows * at.stage), K_map, {kRows * j, 0}, full[at.stage]);
            }
        return;
    }
    simt::Accumulator<kRows> S;
    for (int j = 0; j < kTiles; ++j, at.next()) {
        const auto K_j = K_ring.rows_from<kRows>(kRows * at.stage);
        full[at.stage].wait(at.parity);
        simt::begin_products(S);
        for (int k = 0; k < kColumns; k += 16)
            simt::multiply(S, simt::k_major(K_j, 0, k), simt::k_major(K_j, 0, k), k > 0);
        simt::commit_products();
        simt::wait_products<0>(S);
        if (simt::elect_one()) empty[at.stage].arrive();
    }
    const int thread = int(threadIdx.x);
    for (int i = 0; i < S.size; ++i) O_i(S.row(thread, i), S.column(thread, i)) = simt::f16(S[i]);
    simt::show_to_async();
    simt::sync_threads(1, 128);
    if (threadIdx.x == 0) {
        simt::tma_store(O_map, {0, 0}, O_i);
        simt::commit_stores();
        simt::wait_stores_read<0>();
    }
}

/// Each of two blocks brings half of K_j to both, and lets both know when it has read it.
void pair_kernel(const __grid_constant__ Map half_map) {
    simt::SharedArena arena;
    const auto K_j = arena.panels<simt::f16, kRows, kColumns, simt::Swizzle::b128>("K_j");
    const auto full = arena.barriers<1>("full"), empty = arena.barriers<1>("empty");
    const int rank = simt::cluster_rank();
    if (threadIdx.x == 0) {
        full[0].init(1);
        empty[0].init(2 * kColumns);
        simt::publish_barriers();
    }
    simt::cluster_sync();
    for (int j = 0; j < kTiles; ++j) {
        if (threadIdx.x == 0) {
            empty[0].wait_in_cluster(unsigned(j + 1) % 2);
            full[0].arrive_expecting(kTileBytes);
            simt::tma_load_for_cluster(K_j.rows_from<kRows / 2>(kRows / 2 * rank), half_map,
                                       {kRows * j + kRows / 2 * rank, 0}, full[0], 0b11);
        } else if (threadIdx.x >= 32) {
            full[0].wait(unsigned(j) % 2);
            for (int r = 0; r < kRows; ++r) (void)float(simt::f16(K_j(r, int(threadIdx.x) - 32)));
            for (int block = 0; block < 2; ++block) simt::in_block(empty[0], block).arrive();
        }
    }
    simt::cluster_sync();
}

void launch_pair(const torch::Tensor& k) {
    cudaLaunchAttribute attribute = simt::cluster_dimension(2);
    const cudaLaunchConfig_t config{.gridDim = dim3(2),
                                    .blockDim = dim3(32 + kColumns),
                                    .dynamicSmemBytes = kTileBytes + 64,
                                    .attrs = &attribute,
                                    .numAttrs = 1};
    simt::launch("pair_kernel", config, pair_kernel,
                 simt::tile_map<const simt::f16, 2, kRows / 2, kColumns, simt::Swizzle::b128>(tensor_argument("K", k)));
}

int write(const char* file, bool in_cluster) {
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
    const torch::Tensor k = at::ones({kTiles * kRows, kColumns}, at::TensorOptions().dtype(torch::kFloat16));
    const torch::Tensor o = at::zeros({kRows, kRows}, at::TensorOptions().dtype(torch::kFloat16));
    Rung rung{};
    rung.kernel = "ring";
    rung.inputs = {{"keys", k}};
    rung.run = [&]() -> std::vector<torch::Tensor> {
        if (in_cluster) {
            launch_pair(k);
            return {};
        }
        const cudaLaunchConfig_t config{
            .gridDim = dim3(1), .blockDim = dim3(160), .dynamicSmemBytes = (kStages + 1) * kTileBytes + 64};
        simt::launch("ring_kernel", config, ring_kernel,
                     simt::tile_map<const simt::f16, 2, kRows, kColumns, simt::Swizzle::b128>(tensor_argument("K", k)),
                     simt::tile_map<simt::f16, 2, kRows, kColumns, simt::Swizzle::b128>(tensor_argument("O", o)));
        return {};
    };
    rung.check = [](const auto&) { return reference::Comparison{.passed = true}; };
    const cli::TracedRun traced = cli::trace_rung(rung, {});
    std::cout << traced.words << '\n';
    std::ofstream(file) << cli::trace_page(cli::trace_json({&traced, 1}));
    return traced.right() ? 0 : 1;
}

}  // namespace
}  // namespace ladder

int main(int count, char** arguments) { return ladder::write(arguments[1], count > 2); }
