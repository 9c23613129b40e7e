#include "common/reference/gradient_heads.h"

#include <cmath>

namespace ladder::reference {

AttentionGradients differentiate_each_head(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                           const torch::Tensor& dout, const AttentionOptions& options,
                                           const std::optional<torch::Tensor>& dlse, const AttentionResult& given,
                                           torch::ScalarType work_dtype, const DifferentiateHead& differentiate) {
    TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && q.size(1) % k.size(1) == 0, "reference: q ", q.sizes(), " and k ",
                k.sizes(), " must be [B, H, S, D], with query heads a multiple of kv heads");
    TORCH_CHECK(k.sizes() == v.sizes(), "reference: k ", k.sizes(), " and v ", v.sizes(), " must have one shape");
    TORCH_CHECK(dout.sizes() == q.sizes(), "reference: dout ", dout.sizes(), " and q ", q.sizes(),
                " must have one shape");
    TORCH_CHECK(!dlse || dlse->sizes() == q.sizes().slice(0, 3), "reference: dlse must be [B, Hq, Sq]");
    const auto of = [work_dtype](const torch::Tensor& x) { return x.detach().to(work_dtype); };
    const int64_t query_heads = q.size(1) / k.size(1);
    const double scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(3))));
    const auto visible = visible_keys(options.mask, q.size(2), k.size(2), q.device());
    const auto like = [work_dtype](const torch::Tensor& x) {
        return at::zeros(x.sizes(), x.options().dtype(work_dtype));
    };
    const AttentionGradients sum{like(q), like(k), like(v)};
    const torch::Tensor zeros = at::zeros({q.size(2)}, q.options().dtype(work_dtype));
    for (int64_t b = 0; b < q.size(0); ++b)
        for (int64_t h = 0; h < q.size(1); ++h) {
            const int64_t kv_head = h / query_heads;
            const AttentionResult of_head =
                given.out.defined() ? AttentionResult{of(given.out[b][h]), of(given.lse[b][h])} : AttentionResult{};
            const AttentionGradients one =
                differentiate({of(q[b][h]), of(k[b][kv_head]), of(v[b][kv_head]), visible, scale},
                              {of(dout[b][h]), dlse ? of((*dlse)[b][h]) : zeros, of_head, query_heads});
            sum.dq[b][h].copy_(one.dq);
            sum.dk[b][kv_head].add_(one.dk);
            sum.dv[b][kv_head].add_(one.dv);
        }
    return sum;
}

}  // namespace ladder::reference
