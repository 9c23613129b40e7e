#include "tests/reference/by_hand.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "common/reference/test_device.h"

namespace ladder::reference {

std::string name_of(Mistake mistake) {
    constexpr std::array kNames{"none",
                                "dropped_last_key",
                                "scale_one_over_d",
                                "scale_off_by_percents",
                                "swapped_heads",
                                "swapped_batch",
                                "kv_head_modulo",
                                "causal_one_key_short",
                                "causal_one_key_more",
                                "top_left_for_bottom_right",
                                "mask_ignored",
                                "missing_rescale_of_sum",
                                "missing_rescale_of_output",
                                "max_seeded_with_zero",
                                "max_seeded_with_smallest_positive",
                                "max_seeded_with_finite_sentinel",
                                "no_max_at_all",
                                "not_normalised",
                                "lse_in_log2",
                                "lse_without_max",
                                "lse_negated",
                                "last_row_not_written",
                                "last_row_stale",
                                "last_column_not_written",
                                "one_element_not_written",
                                "v_shifted_by_one_row",
                                "k_shifted_by_one_row",
                                "length_one_more",
                                "length_one_less",
                                "length_ignored"};
    return kNames.at(static_cast<size_t>(mistake));
}

std::string name_of(torch::ScalarType dtype) {
    return dtype == torch::kFloat32 ? "f32" : dtype == torch::kFloat16 ? "f16" : "bf16";
}

namespace {

float rounded_to(torch::ScalarType dtype, float x) {
    switch (dtype) {
        case torch::kFloat16:
            return static_cast<float>(c10::Half(x));
        case torch::kBFloat16:
            return static_cast<float>(c10::BFloat16(x));
        default:
            return x;
    }
}

bool sees(Mask mask, int64_t i, int64_t j, int64_t queries, int64_t keys) {
    switch (mask) {
        case Mask::none:
            return true;
        case Mask::causal_bottom_right:
            return j <= i + keys - queries;
        case Mask::causal_top_left:
            return j <= i;
    }
    return false;
}

}  // namespace

AttentionResult attention_key_by_key(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options, const std::optional<torch::Tensor>& kv_lengths,
                                     Implementation implementation) {
    const auto [mistake, arithmetic] = implementation;
    const auto made = [mistake = mistake](Mistake other) { return mistake == other; };
    const int64_t batch = q.size(0), heads = q.size(1), queries = q.size(2), head_dim = q.size(3);
    const int64_t kv_heads = k.size(1), capacity = k.size(2);
    const auto q_host = q.cpu().to(torch::kFloat32).contiguous(), k_host = k.cpu().to(torch::kFloat32).contiguous(),
               v_host = v.cpu().to(torch::kFloat32).contiguous();
    const auto Q = q_host.accessor<float, 4>(), K = k_host.accessor<float, 4>(), V = v_host.accessor<float, 4>();

    auto out = at::full({batch, heads, queries, head_dim}, kNan, at::kFloat);
    auto lse = at::full({batch, heads, queries}, kNan, at::kFloat);
    auto O = out.accessor<float, 4>();
    auto L = lse.accessor<float, 3>();

    auto scale = static_cast<float>(options.scale.value_or(1.0 / std::sqrt(static_cast<double>(head_dim))));
    if (made(Mistake::scale_one_over_d)) scale = 1.0f / static_cast<float>(head_dim);
    // 1 %; bfloat16 keeps 8 bits of a score, so there an error that size is as large as honest rounding.
    if (made(Mistake::scale_off_by_percents)) scale *= q.scalar_type() == torch::kBFloat16 ? 1.1f : 1.01f;
    const float to_base_two = scale * 1.44269504f;
    const bool base_two = arithmetic == Arithmetic::base_two;
    const auto exponential = [base_two](float x) { return base_two ? std::exp2(x) : std::exp(x); };
    Mask mask = options.mask;
    if (made(Mistake::mask_ignored)) mask = Mask::none;
    if (made(Mistake::top_left_for_bottom_right)) mask = Mask::causal_top_left;

    for (int64_t b = 0; b < batch; ++b) {
        int64_t keys = kv_lengths ? (*kv_lengths)[b].item<int64_t>() : capacity;
        if (made(Mistake::length_one_more)) keys = std::min(keys + 1, capacity);
        if (made(Mistake::length_one_less)) keys = std::max<int64_t>(keys - 1, 0);
        if (made(Mistake::length_ignored)) keys = capacity;
        const int64_t kv_b = made(Mistake::swapped_batch) ? (b + 1) % batch : b;
        for (int64_t h = 0; h < heads; ++h) {
            int64_t kv_h = h / (heads / kv_heads);
            if (made(Mistake::kv_head_modulo)) kv_h = h % kv_heads;
            if (made(Mistake::swapped_heads)) kv_h = (kv_h + 1) % kv_heads;
            for (int64_t i = 0; i < queries; ++i) {
                if (i == queries - 1 && made(Mistake::last_row_not_written)) continue;
                if (i == queries - 1 && i > 0 && made(Mistake::last_row_stale)) {
                    for (int64_t d = 0; d < head_dim; ++d) O[b][h][i][d] = O[b][h][i - 1][d];
                    L[b][h][i] = L[b][h][i - 1];
                    continue;
                }
                float m = -std::numeric_limits<float>::infinity();
                if (made(Mistake::max_seeded_with_zero)) m = 0.0f;
                if (made(Mistake::max_seeded_with_smallest_positive)) m = std::numeric_limits<float>::min();
                if (made(Mistake::max_seeded_with_finite_sentinel)) m = -500.0f;
                float l = 0.0f;
                std::vector<float> o(head_dim, 0.0f);
                bool sees_any = false;
                for (int64_t j = 0; j < keys; ++j) {
                    int64_t shift = 0;
                    if (made(Mistake::causal_one_key_short)) shift = 1;
                    if (made(Mistake::causal_one_key_more)) shift = -1;
                    if (!sees(mask, i, j + (mask == Mask::none ? 0 : shift), queries, keys)) continue;
                    if (j == keys - 1 && made(Mistake::dropped_last_key)) continue;
                    sees_any = true;
                    float s = 0.0f;
                    const int64_t k_row = made(Mistake::k_shifted_by_one_row) ? (j + 1) % capacity : j;
                    for (int64_t d = 0; d < head_dim; ++d) s += Q[b][h][i][d] * K[kv_b][kv_h][k_row][d];
                    s *= base_two ? to_base_two : scale;
                    float m_new = std::max(m, s);
                    if (made(Mistake::no_max_at_all)) m = m_new = 0.0f;
                    const float rescale = m == m_new ? 1.0f : exponential(m - m_new);
                    const float p = exponential(s - m_new);
                    const float weight = arithmetic == Arithmetic::rounded_weights ? rounded_to(q.scalar_type(), p) : p;
                    l = l * (made(Mistake::missing_rescale_of_sum) ? 1.0f : rescale) + p;
                    const int64_t v_row = made(Mistake::v_shifted_by_one_row) ? (j + 1) % capacity : j;
                    for (int64_t d = 0; d < head_dim; ++d) {
                        o[d] = o[d] * (made(Mistake::missing_rescale_of_output) ? 1.0f : rescale) +
                               weight * V[kv_b][kv_h][v_row][d];
                    }
                    m = m_new;
                }
                const float normaliser = made(Mistake::not_normalised) ? 1.0f : l;
                for (int64_t d = 0; d < head_dim; ++d) O[b][h][i][d] = sees_any ? o[d] / normaliser : 0.0f;
                float row_lse = (base_two ? m * 0.69314718f : m) + std::log(l);
                if (!sees_any) row_lse = -std::numeric_limits<float>::infinity();
                if (made(Mistake::lse_in_log2)) row_lse *= 1.44269504f;
                if (made(Mistake::lse_without_max)) row_lse = std::log(l);
                if (made(Mistake::lse_negated)) row_lse = -row_lse;
                L[b][h][i] = row_lse;
                if (made(Mistake::last_column_not_written)) O[b][h][i][head_dim - 1] = std::nanf("");
            }
        }
    }
    if (made(Mistake::one_element_not_written)) O[batch - 1][0][queries / 2][head_dim / 2] = std::nanf("");
    return {out.to(q.scalar_type()).to(q.device()), lse.to(q.device())};
}

AttentionEntry entry_of(Implementation implementation, const std::optional<torch::Tensor>& kv_lengths) {
    return
        [=](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, const AttentionOptions& options) {
            return attention_key_by_key(q, k, v, options, kv_lengths, implementation);
        };
}

AttentionResult attention_by_hand(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options, const std::vector<int64_t>& lengths) {
    const auto q_host = q.cpu().to(torch::kFloat64).contiguous(), k_host = k.cpu().to(torch::kFloat64).contiguous(),
               v_host = v.cpu().to(torch::kFloat64).contiguous();
    const auto Q = q_host.accessor<double, 4>(), K = k_host.accessor<double, 4>(), V = v_host.accessor<double, 4>();
    auto out = at::zeros({q.size(0), q.size(1), q.size(2), q.size(3)}, at::kDouble);
    auto lse = at::full({q.size(0), q.size(1), q.size(2)}, -kInfinity, at::kDouble);
    auto O = out.accessor<double, 4>();
    auto L = lse.accessor<double, 3>();
    const double scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(3))));
    for (int64_t b = 0; b < q.size(0); ++b) {
        for (int64_t h = 0; h < q.size(1); ++h) {
            const int64_t kv_h = h * k.size(1) / q.size(1);
            for (int64_t i = 0; i < q.size(2); ++i) {
                std::vector<double> scores(k.size(2), -kInfinity);
                double max = -kInfinity, sum = 0.0;
                for (int64_t j = 0; j < lengths[b]; ++j) {
                    if (!sees(options.mask, i, j, q.size(2), lengths[b])) continue;
                    double s = 0.0;
                    for (int64_t d = 0; d < q.size(3); ++d) s += Q[b][h][i][d] * K[b][kv_h][j][d];
                    scores[j] = s * scale;
                    max = std::max(max, scores[j]);
                }
                if (max == -kInfinity) continue;
                for (const double s : scores) sum += std::exp(s - max);
                for (int64_t d = 0; d < q.size(3); ++d) {
                    for (int64_t j = 0; j < lengths[b]; ++j) {
                        O[b][h][i][d] += std::exp(scores[j] - max) / sum * V[b][kv_h][j][d];
                    }
                }
                L[b][h][i] = max + std::log(sum);
            }
        }
    }
    return {out, lse};
}

double distance(const torch::Tensor& a, const torch::Tensor& b) {
    const auto x = a.cpu().to(torch::kFloat64), y = b.cpu().to(torch::kFloat64);
    const auto difference = (x - y).abs().masked_fill(x.eq(y), 0.0);
    return difference.masked_fill(difference.isnan(), kInfinity).max().item<double>();
}

AttentionCase grouped_case(torch::ScalarType dtype, Mask mask) {
    AttentionCase problem{.batch = 2,
                          .query_heads = 4,
                          .kv_heads = 2,
                          .query_length = 33,
                          .key_length = 40,
                          .head_dim = 32,
                          .dtype = dtype,
                          .options = {.scale = {}, .mask = mask},
                          .seed = 11};
    problem.name = describe(problem);
    return problem;
}

torch::Tensor lengths_tensor(const std::vector<int64_t>& lengths) {
    return at::tensor(at::ArrayRef<int64_t>(lengths), at::kLong).to(test_device());
}

torch::Tensor tensor_of(const std::vector<double>& values, at::IntArrayRef sizes) {
    return at::tensor(at::ArrayRef<double>(values), at::kDouble).view(sizes).to(test_device());
}

}  // namespace ladder::reference
