#include "common/reference/low_precision.h"

#include "common/reference/per_head.h"

namespace ladder::reference {

AttentionResult attention_low_precision(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                        const AttentionOptions& options,
                                        const std::optional<torch::Tensor>& kv_lengths) {
    TORCH_CHECK(q.defined(), "reference: q must be a defined tensor");
    const auto dtype = q.scalar_type();
    const auto rounded = [dtype](const torch::Tensor& x) { return x.to(dtype).to(torch::kFloat32); };
    const auto attend = [&rounded](const Head& head) -> AttentionResult {
        const auto products = rounded(at::matmul(head.q, head.k.t()));
        const auto scores = rounded(products * head.scale);
        const auto weights = rounded(softmax_of_visible(scores, head.visible));
        return {weighted_sum(weights, head.v, head.visible), logsumexp_of_visible(scores, head.visible)};
    };
    return attend_each_head(q, k, v, options, kv_lengths, torch::kFloat32, dtype, attend);
}

torch::Tensor softmax_low_precision(const torch::Tensor& x) {
    return at::softmax(x.detach().to(torch::kFloat32), -1).to(x.scalar_type());
}

torch::Tensor logsumexp_low_precision(const torch::Tensor& x) {
    return at::logsumexp(x.detach().to(torch::kFloat32), -1);
}

}  // namespace ladder::reference
