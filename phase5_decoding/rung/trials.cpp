#include "tests/mutants/trials.h"
#include "common/reference/large_device.h"
#include "phase5_decoding/decode.h"

namespace ladder::mutants {
namespace {

/// The kernel of decode.cuh with a given number of splits, and lengths where they are given.
reference::AttentionEntry decode(int64_t splits, std::optional<torch::Tensor> kv_lengths = {}) {
    return [=](const auto& q, const auto& k, const auto& v, const AttentionOptions& options) {
        return flash_decode_plain(q, k, v, {.attention = options, .kv_lengths = kv_lengths, .splits = splits});
    };
}

/// The same with the kernel of decode_pipelined.cuh.
reference::AttentionEntry pipelined(int64_t splits, std::optional<torch::Tensor> kv_lengths = {}) {
    return [=](const auto& q, const auto& k, const auto& v, const AttentionOptions& options) {
        return flash_decode_pipelined(q, k, v, {.attention = options, .kv_lengths = kv_lengths, .splits = splits});
    };
}

/// For 16-bit elements: more keys than a ring holds, a last tile that is not full, groups of several rows and more than
/// one tile of them, surplus columns, sequences of their own lengths, one of them empty.
void add_pipelined_trials(std::vector<Trial>& trials, torch::ScalarType dtype) {
    using reference::Family;
    const torch::Tensor lengths = at::tensor(at::ArrayRef<int64_t>{1500, 0, 129}, at::kLong);
    const auto add = [&](reference::AttentionCase problem, auto entry, std::optional<torch::Tensor> kv_lengths = {}) {
        problem.dtype = dtype;
        problem.seed = 21;
        trials.push_back(attention_trial(entry, problem, kv_lengths));
    };
    add({.name = "pipelined_one_key", .query_heads = 4, .kv_heads = 2, .key_length = 1, .head_dim = 32}, pipelined(1));
    add({.name = "pipelined_few_keys", .query_heads = 4, .kv_heads = 2, .key_length = 75, .head_dim = 24},
        pipelined(1));
    for (const auto family : {Family::normal, Family::one_huge_logit, Family::rising_scores, Family::falling_scores})
        for (const int64_t splits : {1, 3}) {
            const std::string name = "pipelined_" + std::to_string(splits) + (splits == 1 ? "_split" : "_splits");
            const reference::AttentionCase problem{.name = name,
                                                   .batch = 3,
                                                   .query_heads = 12,
                                                   .kv_heads = 2,
                                                   .query_length = 3,
                                                   .key_length = 1600,
                                                   .head_dim = 32,
                                                   .family = family};
            add(problem, pipelined(splits));
            reference::AttentionCase ragged = problem;
            ragged.name += "_lengths";
            ragged.head_dim = 24;
            add(ragged, pipelined(splits, lengths), lengths);
        }
}

/// Parts of a few rows, whose sums are of different sizes, against their weighted mean in float64.
Trial merge_trial(int64_t parts) {
    return trial("merge_of_" + std::to_string(parts) + "_parts", [=]() -> ::testing::AssertionResult {
        at::manual_seed(parts);
        const torch::Tensor out = at::randn({parts, 1, 3, 2, 24}), lse = 3 * at::randn({parts, 1, 3, 2});
        const AttentionResult merged = merge_partials(out, lse);
        const torch::Tensor weights = at::softmax(lse.to(torch::kFloat64), 0).unsqueeze(-1);
        const torch::Tensor expected = (weights * out).sum(0), expected_lse = at::logsumexp(lse.to(torch::kFloat64), 0);
        if (!at::allclose(merged.out.to(torch::kFloat64), expected, 1e-5, 1e-5))
            return ::testing::AssertionFailure() << "O of " << parts << " parts is wrong";
        if (!at::allclose(merged.lse.to(torch::kFloat64), expected_lse, 1e-5, 1e-5))
            return ::testing::AssertionFailure() << "LSE of " << parts << " parts is wrong";
        return ::testing::AssertionSuccess();
    });
}

}  // namespace

std::vector<Trial> trials(torch::ScalarType dtype) {
    std::vector<Trial> trials = attention_trials(decode(1), dtype);
    const torch::Tensor lengths = at::tensor(at::ArrayRef<int64_t>{300, 1, 129}, at::kLong);
    for (const auto family :
         {reference::Family::normal, reference::Family::one_huge_logit, reference::Family::rising_scores})
        for (const Mask mask : {Mask::none, Mask::causal_bottom_right}) {
            reference::AttentionCase problem{.batch = 3,
                                             .query_heads = 6,
                                             .kv_heads = 2,
                                             .query_length = 3,
                                             .key_length = 400,
                                             .head_dim = 32,
                                             .dtype = dtype,
                                             .family = family,
                                             .options = {.scale = {}, .mask = mask},
                                             .seed = 11};
            const auto add = [&](const std::string& name, auto entry, std::optional<torch::Tensor> kv_lengths = {}) {
                problem.name = mask == Mask::none ? name : "causal_" + name;
                trials.push_back(attention_trial(entry, problem, kv_lengths));
            };
            add("one_split", decode(1));
            add("three_splits", decode(3));
            add("lengths", decode(3, lengths), lengths);
        }
    if (dtype != torch::kFloat32) add_pipelined_trials(trials, dtype);
    // Launches that may start early, on a device that has them.
    trials.push_back(
        attention_trial(reference::on_large_device(decode(3)),
                        {.name = "early_merge", .key_length = 3 * 128, .head_dim = 8, .dtype = dtype, .seed = 12}));
    // Few groups and many, a whole round of parts and a part of one, more than all groups take at once.
    if (dtype == torch::kFloat32)
        for (const int64_t parts : {2, 7, 16, 17, 150}) trials.push_back(merge_trial(parts));
    // More splits than a round of the combine kernel merges.
    trials.push_back(attention_trial(
        decode(36), {.name = "many_splits", .key_length = 36 * 128, .head_dim = 8, .dtype = dtype, .seed = 12}));
    // The sums of one lane are short where 32 of them share the keys.
    if (dtype != torch::kFloat32)
        trials.push_back(attention_trial(decode(1), {.name = "longer_sum",
                                                     .key_length = 24000,
                                                     .head_dim = 8,
                                                     .dtype = dtype,
                                                     .family = reference::Family::offset_values,
                                                     .options = {.scale = 1e-3}}));
    return trials;
}

}  // namespace ladder::mutants
