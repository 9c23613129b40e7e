#include "common/rung/attention_rung.h"

#include <algorithm>
#include <utility>

namespace ladder {
namespace {

/// Pairs of a query and a key that it sees, in one head.
double visible_pairs(Mask mask, std::int64_t queries, std::int64_t keys) {
    if (mask == Mask::none) return double(queries) * double(keys);
    double pairs = 0;
    for (std::int64_t i = 0; i < queries; ++i)
        pairs +=
            double(std::clamp<std::int64_t>(i + 1 + (mask == Mask::causal_bottom_right ? keys - queries : 0), 0, keys));
    return pairs;
}

/// Two matrix products, over the pairs that are seen.
double attention_flops(const torch::Tensor& q, const torch::Tensor& k, Mask mask) {
    return 4.0 * double(q.size(0) * q.size(1) * q.size(3)) * visible_pairs(mask, q.size(2), k.size(2));
}

std::map<std::string, std::uint64_t> attention_tensor_bytes(const torch::Tensor& q, const torch::Tensor& k) {
    const std::uint64_t rows = q.size(0) * q.size(1) * q.size(2), per_row = sizeof(float) * rows,
                        scores = rows * k.size(2) * q.element_size();
    return {{"Q", q.nbytes()},
            {"K", k.nbytes()},
            {"V", k.nbytes()},
            {"O", q.nbytes()},
            {"O (float32)", q.numel() * sizeof(float)},
            {"LSE", per_row},
            {"l", per_row},
            {"m", per_row},
            {"S", scores},
            {"P", scores}};
}

}  // namespace

Rung attention_rung(std::string kernel, std::string changes, const RungInput& input, const AttentionOptions& options,
                    AttentionCall entry, GlobalBytes bytes, Growth growth) {
    const torch::Tensor q = input.q, k = input.k, v = input.v;
    return {.kernel = std::move(kernel),
            .changes = std::move(changes),
            .inputs = {{"q", q}, {"k", k}, {"v", v}},
            .run =
                [=] {
                    const AttentionResult result = entry(q, k, v);
                    return std::vector<torch::Tensor>{result.out, result.lse};
                },
            .check =
                [=](const std::vector<torch::Tensor>& outputs) {
                    return reference::compare_attention({outputs[0], outputs[1]}, q, k, v, options);
                },
            .causal = options.mask != Mask::none,
            .bytes = bytes,
            .flops = attention_flops(q, k, options.mask),
            .growth = std::move(growth),
            .tensor_bytes = attention_tensor_bytes(q, k)};
}

Growth growth_with_query_tiles() {
    return {.law = "Θ(N² d² / M), M = Θ(B_r d)", .source = "Dao et al. 2022, Theorem 2", .with_length = 2};
}

Growth growth_with_few_queries() {
    return {.law = "Θ(N d)", .source = "every key and value once for a few queries", .with_length = 1};
}

RungInput with_newest(RungInput input) {
    input.q = input.newest;
    return input;
}

}  // namespace ladder
