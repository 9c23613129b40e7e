#include "common/reference/register_tile_cases.h"

#include "common/attention/dispatch.cuh"
#include "common/attention/machine.h"
#include "common/attention/register_tile.cuh"
#include "common/attention/wide_tiles.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device.h"

namespace ladder::reference {

std::vector<AttentionCase> register_tile_cases(const std::vector<AttentionCase>& cases) {
    const simt::Device device = test_device().is_cuda() ? device_limits(test_device()) : large_device();
    std::vector<AttentionCase> wide;
    for (AttentionCase problem : cases) {
        if (problem.head_dim > kWidestWideHeadDim) continue;
        std::size_t bytes = 0;
        cpu::with_tiled_head_dim(problem.head_dim, [&]<int D>(std::integral_constant<int, D>) {
            bytes = cpu::RegisterTiles<D>::shared_bytes;
        });
        if (bytes > std::size_t(device.shared_bytes_per_block_optin)) continue;
        if (problem.dtype != torch::kFloat32) {
            problem.dtype = torch::kFloat32;
            if (!problem.name.empty()) problem.name += "_in_float32";
        }
        wide.push_back(problem);
    }
    return wide;
}

std::vector<int64_t> register_tile_head_dims() {
    std::vector<int64_t> fitting;
    for (const AttentionCase& problem : register_tile_cases({{.head_dim = 16}, {.head_dim = 64}, {.head_dim = 128}}))
        fitting.push_back(problem.head_dim);
    return fitting;
}

}  // namespace ladder::reference
