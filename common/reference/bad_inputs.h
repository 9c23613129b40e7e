#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "common/attention/options.h"
#include "common/torch/torch.h"

namespace ladder::reference {

/// A call that every attention entry must refuse, and what its message must say.
struct BadInput {
    std::string name = {};  ///< Letters, digits and underscores.
    /// The arguments of the call.
    torch::Tensor q;
    torch::Tensor k;
    torch::Tensor v;
    AttentionOptions options = {};

    std::vector<std::string> mentions;  ///< The argument at fault ("k:") and the numbers it got.
};

/// The name, for GoogleTest.
std::ostream& operator<<(std::ostream& stream, const BadInput& input);

/// Calls with exactly one thing wrong each. Tensors live on `device`, and have `dtype` where that is not what is wrong;
/// with a CUDA device the table also mixes devices.
std::vector<BadInput> bad_inputs(torch::Device device, torch::ScalarType dtype = torch::kFloat32);

}  // namespace ladder::reference
