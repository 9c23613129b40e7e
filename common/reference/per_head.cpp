#include "common/reference/per_head.h"

#include <cmath>

namespace ladder::reference {
namespace {

void check_shapes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                  const std::optional<torch::Tensor>& kv_lengths) {
    TORCH_CHECK(q.defined() && k.defined() && v.defined(), "reference: q, k and v must be defined tensors");
    TORCH_CHECK(q.dim() == 4 && k.dim() == 4, "reference: q ", q.sizes(), " and k ", k.sizes(),
                " must be [B, H, S, D]");
    TORCH_CHECK(k.sizes() == v.sizes(), "reference: k ", k.sizes(), " and v ", v.sizes(), " must have one shape");
    TORCH_CHECK(q.size(0) == k.size(0) && q.size(3) == k.size(3), "reference: q ", q.sizes(), " and k ", k.sizes(),
                " must agree in batch and head dim");
    TORCH_CHECK(k.size(1) > 0 && q.size(1) % k.size(1) == 0, "reference: ", q.size(1),
                " query heads must be a multiple of ", k.size(1), " kv heads");
    if (kv_lengths) {
        TORCH_CHECK(kv_lengths->dim() == 1 && kv_lengths->size(0) == q.size(0), "reference: kv_lengths ",
                    kv_lengths->sizes(), " must be [B] with B = ", q.size(0));
    }
}

int64_t length_of_sequence(const std::optional<torch::Tensor>& kv_lengths, int64_t sequence, int64_t key_length) {
    if (!kv_lengths) return key_length;
    const auto length = (*kv_lengths)[sequence].item<int64_t>();
    TORCH_CHECK(0 <= length && length <= key_length, "reference: kv_lengths[", sequence, "] is ", length,
                ", outside 0 to ", key_length);
    return length;
}

}  // namespace

AttentionResult attend_each_head(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                 const AttentionOptions& options, const std::optional<torch::Tensor>& kv_lengths,
                                 torch::ScalarType work_dtype, torch::ScalarType out_dtype, const AttendHead& attend) {
    const at::NoGradGuard no_gradients;
    check_shapes(q, k, v, kv_lengths);
    const int64_t batch = q.size(0), heads = q.size(1), queries = q.size(2), head_dim = q.size(3);
    const int64_t heads_per_kv_head = heads / k.size(1);
    const double scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(head_dim)));

    AttentionResult result{at::zeros({batch, heads, queries, head_dim}, q.options().dtype(out_dtype)),
                           at::full({batch, heads, queries}, kHiddenScore, q.options().dtype(work_dtype))};
    for (int64_t b = 0; b < batch; ++b) {
        const int64_t keys = length_of_sequence(kv_lengths, b, k.size(2));
        if (keys == 0) continue;
        const auto visible = visible_keys(options.mask, queries, keys, q.device());
        for (int64_t h = 0; h < heads; ++h) {
            const int64_t kv_head = h / heads_per_kv_head;
            const auto attended = attend({q[b][h].to(work_dtype), k[b][kv_head].narrow(0, 0, keys).to(work_dtype),
                                          v[b][kv_head].narrow(0, 0, keys).to(work_dtype), visible, scale});
            result.out[b][h].copy_(attended.out);
            result.lse[b][h].copy_(attended.lse);
        }
    }
    return result;
}

torch::Tensor visible_keys(Mask mask, int64_t query_length, int64_t key_length, torch::Device device) {
    const auto positions = at::TensorOptions().dtype(torch::kInt64).device(device);
    const auto i = at::arange(query_length, positions).unsqueeze(1);
    const auto j = at::arange(key_length, positions).unsqueeze(0);
    switch (mask) {
        case Mask::none:
            return at::ones({query_length, key_length}, positions.dtype(torch::kBool));
        case Mask::causal_bottom_right:
            return j <= i + (key_length - query_length);
        case Mask::causal_top_left:
            return j <= i;
    }
    TORCH_CHECK(false, "reference: unknown mask ", static_cast<int>(mask));
}

torch::Tensor softmax_of_visible(const torch::Tensor& scores, const torch::Tensor& visible) {
    const auto sees_nothing = visible.logical_not().all(-1, /*keepdim=*/true);
    return at::softmax(scores.masked_fill(visible.logical_not(), kHiddenScore), -1).masked_fill(sees_nothing, 0.0);
}

torch::Tensor logsumexp_of_visible(const torch::Tensor& scores, const torch::Tensor& visible) {
    return at::logsumexp(scores.masked_fill(visible.logical_not(), kHiddenScore), -1);
}

torch::Tensor weighted_sum(const torch::Tensor& weights, const torch::Tensor& v, const torch::Tensor& visible) {
    const auto unusual = at::isfinite(v).logical_not();
    auto sum = at::matmul(weights, v.masked_fill(unusual, 0.0));
    const auto unusual_keys = unusual.any(-1).nonzero().view({-1}).cpu();
    for (int64_t n = 0; n < unusual_keys.size(0); ++n) {
        const auto key = unusual_keys[n].item<int64_t>();
        const auto unusual_value = v[key].masked_fill(unusual[key].logical_not(), 0.0).unsqueeze(0);
        const auto term = weights.select(1, key).unsqueeze(1) * unusual_value;
        sum += term.masked_fill(visible.select(1, key).logical_not().unsqueeze(1), 0.0);
    }
    return sum;
}

}  // namespace ladder::reference
