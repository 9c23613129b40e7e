#include "common/reference/register_tile_cases.h"

#include "common/attention/machine.h"
#include "common/attention/register_tile.cuh"
#include "common/reference/test_device.h"
#include "common/simt/device/device.h"

namespace ladder::reference {

static_assert(cpu::RegisterTiles<128, 128>::shared_bytes <= kMostRegisterTileBytes &&
              cpu::RegisterTiles<128, 256>::shared_bytes == kMostRegisterTileBytes);

std::vector<AttentionCase> register_tile_cases(const std::vector<AttentionCase>& cases, int64_t widest_head_dim,
                                               std::size_t shared_bytes) {
    const simt::Device device = test_device().is_cuda() ? device_limits(test_device()) : large_device();
    if (shared_bytes > std::size_t(device.shared_bytes_per_block_optin)) return {};
    std::vector<AttentionCase> taken;
    for (AttentionCase problem : cases) {
        if (problem.head_dim > widest_head_dim) continue;
        if (problem.dtype != torch::kFloat32) {
            problem.dtype = torch::kFloat32;
            if (!problem.name.empty()) problem.name += "_in_float32";
        }
        taken.push_back(problem);
    }
    return taken;
}

std::vector<int64_t> register_tile_head_dims(int64_t widest_head_dim, std::size_t shared_bytes) {
    std::vector<AttentionCase> cases;
    for (const int64_t head_dim : {16, 64, 96, 128, 256}) cases.push_back({.head_dim = head_dim});
    std::vector<int64_t> fitting;
    for (const AttentionCase& problem : register_tile_cases(cases, widest_head_dim, shared_bytes))
        fitting.push_back(problem.head_dim);
    return fitting;
}

}  // namespace ladder::reference
