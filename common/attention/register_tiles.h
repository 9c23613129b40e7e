#pragma once

#include <string>

#include "common/torch/torch.h"

namespace ladder {

/// Whether a kernel of register tiles (register_tile.cuh) can run this problem: float32, and a device with asynchronous
/// copies and mbarriers (both from 8.0 on) and `shared_bytes` of shared memory per block. Where it can it pays: it has
/// tiles as small as those of the plain kernels.
bool register_tiles_pay(const torch::Tensor& q, std::size_t shared_bytes);

/// Throws std::invalid_argument unless a kernel of register tiles can run on q: float32, and a device with asynchronous
/// copies and `shared_bytes` of shared memory per block.
void check_register_tiles(const std::string& kernel, const torch::Tensor& q, std::size_t shared_bytes);

/// The same for one that takes head dimensions up to `widest` only.
void check_register_tiles(const std::string& kernel, const torch::Tensor& q, std::size_t shared_bytes, int64_t widest);

}  // namespace ladder
