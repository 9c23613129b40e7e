#pragma once

#include <cstddef>
#include <string>

#include "common/torch/torch.h"

namespace ladder {

/// Throws where the entry `name` cannot run on q: std::invalid_argument for a dtype that it does not take, for too many
/// tiles and for more shared memory than the device has; std::runtime_error for a device without wgmma.
void check_hopper(const std::string& name, const torch::Tensor& q, std::size_t shared_bytes);

}  // namespace ladder
