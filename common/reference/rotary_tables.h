#pragma once

#include <cstdint>

#include "common/torch/torch.h"

namespace ladder::reference {

/// The tables of a rotary embedding (Su et al. 2021).
struct RotaryTables {
    torch::Tensor cosines, sines;  ///< float32 [positions, head_dim / 2], of t 10000^(-2 i / head_dim) at position t
};

/// For positions 0 to `positions` - 1 and an even number of columns.
RotaryTables rotary_tables(std::int64_t positions, std::int64_t head_dim, torch::Device device);

}  // namespace ladder::reference
