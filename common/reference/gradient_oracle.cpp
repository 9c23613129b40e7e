#include "common/reference/gradient_oracle.h"

#include <torch/csrc/autograd/autograd.h>

#include "common/reference/gradient_heads.h"
#include "common/reference/per_head.h"

namespace ladder::reference {

AttentionGradients gradient_oracle(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const torch::Tensor& dout, const AttentionOptions& options,
                                   const std::optional<torch::Tensor>& dlse) {
    const auto differentiate = [](const Head& head, const HeadGradients& from) -> AttentionGradients {
        const at::AutoGradMode with_gradients(true);
        const auto leaf = [](const torch::Tensor& x) { return x.clone().requires_grad_(); };
        const torch::Tensor q = leaf(head.q), k = leaf(head.k), v = leaf(head.v);
        const torch::Tensor scores = at::matmul(q, k.t()) * head.scale;
        const torch::Tensor out = at::matmul(softmax_of_visible(scores, head.visible), v);
        const torch::Tensor lse = logsumexp_of_visible(scores, head.visible);
        const auto gradients = torch::autograd::grad({out, lse}, {q, k, v}, {from.dout, from.dlse});
        return {gradients[0], gradients[1], gradients[2]};
    };
    return differentiate_each_head(q, k, v, dout, options, dlse, {}, torch::kFloat64, differentiate);
}

AttentionGradients gradients_low_precision(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                           const torch::Tensor& dout, const AttentionOptions& options,
                                           const std::optional<torch::Tensor>& dlse) {
    const auto dtype = q.scalar_type();
    const auto rounded = [dtype](const torch::Tensor& x) { return x.to(dtype).to(torch::kFloat32); };
    const auto differentiate = [&](const Head& head, const HeadGradients& from) -> AttentionGradients {
        const torch::Tensor S = rounded(rounded(at::matmul(head.q, head.k.t())) * head.scale);
        const torch::Tensor P = rounded(softmax_of_visible(S, head.visible));
        const torch::Tensor dP = rounded(at::matmul(from.dout, head.v.t()));
        const torch::Tensor D = (P * dP).sum(-1, /*keepdim=*/true);
        const torch::Tensor dS = rounded(rounded(P * (dP - D + from.dlse.unsqueeze(-1))) * head.scale);
        return {at::matmul(dS, head.k), at::matmul(dS.t(), head.q), at::matmul(P.t(), from.dout)};
    };
    const AttentionGradients sum =
        differentiate_each_head(q, k, v, dout, options, dlse, {}, torch::kFloat32, differentiate);
    return {sum.dq.to(dtype), sum.dk.to(dtype), sum.dv.to(dtype)};
}

}  // namespace ladder::reference
