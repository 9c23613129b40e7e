#include <utility>

#include "common/reference/large_device.h"
#include "common/simt/device/device.h"
#include "phase2_fa1/fa1.h"
#include "phase2_fa1/fa1_tiles.h"
#include "tests/mutants/trials.h"

namespace ladder::mutants {
namespace {

/// Tiles follow from the device: little shared memory makes them small, and small problems many tiles long.
simt::Device small_device() {
    simt::Device device = simt::cpu_device();
    device.shared_bytes_per_block_optin = 24 * 1024;
    device.shared_bytes_per_block = 24 * 1024;
    return device;
}

AttentionResult fa1_in_small_tiles(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const AttentionOptions& options) {
    const simt::ScopedCpuDevice imitated(small_device());
    return fa1_plain_forward(q, k, v, options);
}

}  // namespace

std::vector<Trial> trials(torch::ScalarType dtype) {
    std::vector<Trial> trials = attention_trials(fa1_in_small_tiles, dtype);
    const auto type = dtype == torch::kFloat32 ? simt::ElementType::f32 : simt::ElementType::f16;
    trials.push_back(attention_trial(fa1_in_small_tiles, {.name = "whole_tiles",
                                                          .query_length = 9,
                                                          .key_length = 2 * fa1_tiles(small_device(), type, 32).B_c,
                                                          .head_dim = 32,
                                                          .dtype = dtype}));
    for (Trial& trial : register_tile_trials(fa1_tiled_forward, dtype)) trials.push_back(std::move(trial));
    if (dtype == torch::kFloat32)
        trials.push_back(
            attention_trial(reference::on_large_device(fa1_tiled_forward),
                            {.name = "tiled_more_query_tiles", .query_length = 300, .key_length = 70, .head_dim = 24}));
    return trials;
}

}  // namespace ladder::mutants
