#pragma once

#include <initializer_list>
#include <optional>

#include "common/attention/arguments.h"
#include "common/attention/options.h"
#include "common/torch/torch.h"
#include "phase8_backward/backward.h"

namespace ladder {

/// The masks that backward entries take.
inline constexpr std::initializer_list<Mask> kBackwardMasks = {Mask::none, Mask::causal_bottom_right,
                                                               Mask::causal_top_left};

/// Throws std::invalid_argument unless the arguments of a backward pass belong together, as plain_backward() describes
/// them; the message names the argument, what it is and what it must be. Nothing has been launched when it throws.
void check_backward(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const torch::Tensor& out, const torch::Tensor& lse, const AttentionOptions& options,
                    const BackwardOptions& backward_options, const std::optional<torch::Tensor>& dlse);

/// The same for a traffic formula, which asks for less.
void check_backward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const AttentionOptions& options, const BackwardOptions& backward_options);

/// What several kernels move together.
GlobalBytes bytes_of_all(std::initializer_list<GlobalBytes> parts);

}  // namespace ladder
