#include "common/reference/rotary_tables.h"

#include <ATen/ops/cos.h>
#include <ATen/ops/sin.h>

namespace ladder::reference {

RotaryTables rotary_tables(std::int64_t positions, std::int64_t head_dim, torch::Device device) {
    constexpr double kBase = 10000.0;
    const auto pair = at::arange(head_dim / 2, at::kDouble), position = at::arange(positions, at::kDouble);
    const auto angles = position.unsqueeze(1) * at::pow(kBase, pair * (-2.0 / static_cast<double>(head_dim)));
    return {angles.cos().to(at::kFloat).to(device), angles.sin().to(at::kFloat).to(device)};
}

}  // namespace ladder::reference
