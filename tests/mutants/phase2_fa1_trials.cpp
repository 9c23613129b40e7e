#include "common/simt/device.h"
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
    return fa1_forward(q, k, v, options);
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
    return trials;
}

}  // namespace ladder::mutants
