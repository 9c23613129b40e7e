#include "common/classroom/judge/attend.h"

#include "common/reference/per_head.h"

namespace ladder::classroom {
namespace {

torch::Tensor for_each_query_head(const torch::Tensor& kv, int64_t query_heads) {
    return kv.repeat_interleave(query_heads / kv.size(1), 1);
}

}  // namespace

torch::Tensor sight(int64_t queries, int64_t keys, const Form& form) {
    const torch::Tensor i = at::arange(queries).view({1, 1, -1, 1}), j = at::arange(keys).view({1, 1, 1, -1});
    const torch::Tensor length =
        form.lengths ? form.lengths->to(torch::kLong).view({-1, 1, 1, 1}) : at::full({1, 1, 1, 1}, keys, torch::kLong);
    torch::Tensor seen = j < length;
    if (form.mask == Mask::none) return seen.expand({seen.size(0), 1, queries, keys});
    const torch::Tensor last = (form.mask == Mask::causal_top_left ? i : i + length - queries) + form.further;
    seen = seen & (j <= last);
    if (form.window) seen = seen & (j > last - *form.window);
    return seen;
}

torch::Tensor scores_of(const torch::Tensor& q, const torch::Tensor& k, const Form& form, torch::ScalarType precision) {
    const torch::Tensor keys = for_each_query_head(k, q.size(1)).to(precision);
    torch::Tensor scores = at::matmul(q.to(precision), keys.transpose(-1, -2)) * form.scale;
    if (form.softcap) scores = at::tanh(scores / *form.softcap) * *form.softcap;
    if (form.slopes) {
        const torch::Tensor i = at::arange(q.size(2)).view({-1, 1}), j = at::arange(k.size(2)).view({1, -1});
        const torch::Tensor distance = (j - (i + k.size(2) - q.size(2))).to(precision);
        scores = scores + form.slopes->to(precision).view({1, -1, 1, 1}) * distance;
    }
    if (form.scores_kept_as) scores = scores.to(*form.scores_kept_as).to(precision);
    return scores.masked_fill(sight(q.size(2), k.size(2), form).logical_not(), reference::kHiddenScore);
}

Attended attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, const Form& form,
                torch::ScalarType precision) {
    const torch::Tensor scores = scores_of(q, k, form, precision);
    const torch::Tensor lse = at::logsumexp(scores, -1);
    const torch::Tensor sees_none = lse.eq(reference::kHiddenScore);
    torch::Tensor weights =
        at::exp(scores - lse.masked_fill(sees_none, 0).unsqueeze(-1)).masked_fill(sees_none.unsqueeze(-1), 0);
    if (form.weights_kept_as) weights = weights.to(*form.weights_kept_as).to(precision);
    return {at::matmul(weights, for_each_query_head(v, q.size(1)).to(precision)), lse};
}

}  // namespace ladder::classroom
