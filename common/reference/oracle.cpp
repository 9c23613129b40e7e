#include "common/reference/oracle.h"

#include "common/reference/per_head.h"

namespace ladder::reference {

AttentionResult attention_oracle(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                 const AttentionOptions& options, const std::optional<torch::Tensor>& kv_lengths) {
    const auto attend = [](const Head& head) -> AttentionResult {
        const auto scores = at::matmul(head.q, head.k.t()) * head.scale;
        const auto weights = softmax_of_visible(scores, head.visible);
        return {weighted_sum(weights, head.v, head.visible), logsumexp_of_visible(scores, head.visible)};
    };
    return attend_each_head(q, k, v, options, kv_lengths, torch::kFloat64, torch::kFloat64, attend);
}

torch::Tensor softmax_oracle(const torch::Tensor& x) { return at::softmax(x.detach().to(torch::kFloat64), -1); }

torch::Tensor logsumexp_oracle(const torch::Tensor& x) { return at::logsumexp(x.detach().to(torch::kFloat64), -1); }

}  // namespace ladder::reference
