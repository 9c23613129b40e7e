#include "common/attention/rungs.h"

#include "phase8_backward/backward.h"

namespace ladder {
namespace {

// What attention() may choose for its backward pass. (It repeats bitwise: dQ is added up in a second pass.)
const RegisterRung plain(BackwardRung{
    .name = "plain_backward",
    .rank = Rank::plain,
    .reason = "it takes every dtype, mask and shape, on any device",
    .objection = [](const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                    const AttentionOptions&) -> std::string { return ""; },
    .run =
        [](const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
           const torch::Tensor& out, const torch::Tensor& lse, const AttentionOptions& options,
           const std::optional<torch::Tensor>& dlse) {
            return plain_backward(dout, q, k, v, out, lse, options, {}, dlse);
        }});

}  // namespace
}  // namespace ladder
