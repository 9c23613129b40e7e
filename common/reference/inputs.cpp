#include "common/reference/inputs.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <ostream>
#include <string_view>
#include <utility>
#include <vector>

namespace ladder::reference {
namespace {

/// Draws in float32 on the CPU; everything is rounded to the case's dtype only at the end.
class Source {
  public:
    explicit Source(uint64_t seed) : generator_(at::detail::createCPUGenerator(seed)) {}

    torch::Tensor normal(at::IntArrayRef sizes) { return at::randn(sizes, generator_, at::kFloat); }
    torch::Tensor signs(at::IntArrayRef sizes) { return at::randint(0, 2, sizes, generator_, at::kFloat) * 2 - 1; }

  private:
    at::Generator generator_;
};

torch::Tensor indices(int64_t count) { return at::arange(count, at::kLong); }

double scale_of(const AttentionCase& problem) {
    return problem.options.scale.value_or(1.0 / std::sqrt(static_cast<double>(problem.head_dim)));
}

double nearest_power_of_two(double x) { return std::exp2(std::round(std::log2(x))); }

/// Each query looks at one coordinate of K only, through a power of two. K lies near -1000, and because the products
/// are exact, they lose nothing to 16-bit scores: plain torch in that dtype stays a meaningful yardstick.
void make_scores_near_minus_1000(const AttentionCase& problem, AttentionInputs& inputs) {
    const double scale = scale_of(problem);
    const double factor = nearest_power_of_two(1.0 / scale);
    const auto coordinate = indices(problem.query_length).remainder(problem.head_dim);
    inputs.q = at::one_hot(coordinate, problem.head_dim).to(at::kFloat).mul(factor).expand_as(inputs.q).clone();
    inputs.k = (inputs.k * 2.0 - 1000.0) / (factor * scale);
}

/// Coordinate 0 of one key, another key in each head, decides: its score is +500 for even rows and -500 for odd ones.
void make_one_huge_logit(const AttentionCase& problem, AttentionInputs& inputs) {
    constexpr double kScore = 500.0, kQueryValue = 4.0;
    const auto row = indices(problem.query_length);
    inputs.q.select(-1, 0).copy_((row.remainder(2) * -2 + 1).to(at::kFloat) * kQueryValue);
    for (int64_t b = 0; b < problem.batch; ++b) {
        for (int64_t h = 0; h < problem.kv_heads; ++h) {
            const int64_t huge_key = (problem.key_length - 1 + 7 * (b + h)) % problem.key_length;
            const auto key = inputs.k[b][h][huge_key];
            key.zero_();
            key[0].fill_(kScore / (kQueryValue * scale_of(problem)));
        }
    }
}

/// V counts its flat index modulo a prime, in steps that every dtype represents exactly. K holds random signs, and row
/// i of Q repeats the signs of the key it looks up, so that this key scores 8 and the others score around 0.
void make_index_ramp(const AttentionCase& problem, AttentionInputs& inputs) {
    constexpr int64_t kPrime = 251;
    constexpr double kMatchScore = 8.0;
    inputs.v =
        (indices(inputs.v.numel()).remainder(kPrime) - kPrime / 2).to(at::kFloat).div(64.0).view(inputs.v.sizes());
    const double amplitude = kMatchScore / (scale_of(problem) * static_cast<double>(problem.head_dim));
    const int64_t heads_per_kv_head = problem.query_heads / problem.kv_heads;
    for (int64_t b = 0; b < problem.batch; ++b) {
        for (int64_t h = 0; h < problem.query_heads; ++h) {
            const auto looked_up = (indices(problem.query_length) * 5 + 3 * h + b).remainder(problem.key_length);
            inputs.q[b][h].copy_(inputs.k[b][h / heads_per_kv_head].index_select(0, looked_up) * amplitude);
        }
    }
}

/// Coordinate 0 adds a slope over the keys: from `first` at key 0 to `last` at the last key.
void add_score_slope(const AttentionCase& problem, AttentionInputs& inputs, double first, double last) {
    const auto slope = at::linspace(first, last, problem.key_length, at::kFloat);
    inputs.q.select(-1, 0).fill_(1.0);
    inputs.k.select(-1, 0).copy_(slope / scale_of(problem));
}

AttentionInputs make_values(const AttentionCase& problem) {
    constexpr double kSlope = 20.0;
    const std::vector<int64_t> query_sizes{problem.batch, problem.query_heads, problem.query_length, problem.head_dim};
    const std::vector<int64_t> key_sizes{problem.batch, problem.kv_heads, problem.key_length, problem.head_dim};
    Source source(problem.seed);
    AttentionInputs inputs{source.normal(query_sizes), source.normal(key_sizes), source.normal(key_sizes)};
    switch (problem.family) {
        case Family::normal:
            break;
        case Family::scores_near_minus_1000:
            make_scores_near_minus_1000(problem, inputs);
            break;
        case Family::one_huge_logit:
            make_one_huge_logit(problem, inputs);
            break;
        case Family::equal_scores:
            inputs.k = inputs.k.narrow(2, 0, 1).expand(key_sizes).clone();
            break;
        case Family::index_ramp:
            inputs.k = source.signs(key_sizes);
            make_index_ramp(problem, inputs);
            break;
        case Family::offset_values:
            inputs.v += source.signs({1, 1, 1, problem.head_dim}) * 100.0;
            break;
        case Family::tiny:
            inputs.q *= 1e-2;
            inputs.k *= 1e-2;
            inputs.v *= 1e-3;
            break;
        case Family::rising_scores:
            add_score_slope(problem, inputs, -kSlope / 2, kSlope / 2);
            break;
        case Family::falling_scores:
            add_score_slope(problem, inputs, kSlope / 2, -kSlope / 2);
            break;
    }
    return inputs;
}

torch::Tensor filled_with_nan(at::IntArrayRef sizes, const torch::Tensor& like) {
    return at::full(sizes, std::numeric_limits<double>::quiet_NaN(), like.options());
}

/// A stride above `elements` that is no multiple of 16 bytes: of two neighbours, one is not aligned.
int64_t unaligned_pitch(int64_t elements, int64_t item_size) {
    constexpr int64_t kVectorBytes = 16;
    const int64_t pitch = elements + 1;
    return pitch * item_size % kVectorBytes == 0 ? pitch + 1 : pitch;
}

std::string_view name_of(torch::ScalarType dtype) {
    switch (dtype) {
        case torch::kFloat32:
            return "f32";
        case torch::kFloat16:
            return "f16";
        case torch::kBFloat16:
            return "bf16";
        default:
            return c10::toString(dtype);
    }
}

std::string_view name_of(Mask mask) {
    switch (mask) {
        case Mask::none:
            return "none";
        case Mask::causal_bottom_right:
            return "bottom_right";
        case Mask::causal_top_left:
            return "top_left";
    }
    return "unknown_mask";
}

}  // namespace

std::string_view name_of(Family family) {
    switch (family) {
        case Family::normal:
            return "normal";
        case Family::scores_near_minus_1000:
            return "scores_near_minus_1000";
        case Family::one_huge_logit:
            return "one_huge_logit";
        case Family::equal_scores:
            return "equal_scores";
        case Family::index_ramp:
            return "index_ramp";
        case Family::offset_values:
            return "offset_values";
        case Family::tiny:
            return "tiny";
        case Family::rising_scores:
            return "rising_scores";
        case Family::falling_scores:
            return "falling_scores";
    }
    return "unknown_family";
}

std::string_view name_of(Layout layout) {
    switch (layout) {
        case Layout::contiguous:
            return "contiguous";
        case Layout::bshd:
            return "bshd";
        case Layout::packed_qkv:
            return "packed_qkv";
        case Layout::sliced_offset:
            return "sliced_offset";
        case Layout::expanded_heads:
            return "expanded_heads";
        case Layout::expanded_batch:
            return "expanded_batch";
        case Layout::padded_rows:
            return "padded_rows";
        case Layout::padded_heads:
            return "padded_heads";
        case Layout::shifted:
            return "shifted";
    }
    return "unknown_layout";
}

int64_t work(const AttentionCase& problem) {
    return problem.batch * problem.query_heads * problem.query_length * problem.key_length * problem.head_dim;
}

std::string describe(const AttentionCase& problem) {
    std::string text(name_of(problem.dtype));
    if (problem.batch != 1) text += fmt::format("_b{}", problem.batch);
    if (problem.query_heads != 1) text += fmt::format("_h{}", problem.query_heads);
    if (problem.kv_heads != problem.query_heads) text += fmt::format("_kv{}", problem.kv_heads);
    text += fmt::format("_q{}_k{}_d{}", problem.query_length, problem.key_length, problem.head_dim);
    if (problem.family != Family::normal) text += fmt::format("_{}", name_of(problem.family));
    const auto& [q, k, v] = problem.layouts;
    for (const auto& [tensor, layout] : {std::pair('q', q), {'k', k}, {'v', v}})
        if (layout != Layout::contiguous) text += fmt::format("_{}_{}", tensor, name_of(layout));
    if (problem.options.mask != Mask::none) text += fmt::format("_{}", name_of(problem.options.mask));
    if (problem.options.scale) {
        // GoogleTest names take no punctuation: 0.3 becomes 0p3, -0.5 becomes m0p5.
        for (const char c : fmt::format("_scale{:g}", *problem.options.scale)) {
            text += c == '.' ? 'p' : c == '-' ? 'm' : c;
        }
    }
    return text;
}

std::ostream& operator<<(std::ostream& stream, const AttentionCase& problem) { return stream << describe(problem); }

torch::Tensor with_layout(const torch::Tensor& tensor, Layout layout) {
    const int64_t batch = tensor.size(0), heads = tensor.size(1), length = tensor.size(2), head_dim = tensor.size(3);
    switch (layout) {
        case Layout::contiguous:
            return tensor.contiguous();
        case Layout::bshd:
            return tensor.transpose(1, 2).contiguous().transpose(1, 2);
        case Layout::packed_qkv: {
            const auto packed = filled_with_nan({batch, length, 3, heads, head_dim}, tensor);
            return packed.select(2, 1).transpose(1, 2).copy_(tensor);
        }
        case Layout::sliced_offset: {
            const auto larger = filled_with_nan({batch + 1, heads + 2, length + 5, head_dim}, tensor);
            return larger.narrow(0, 1, batch).narrow(1, 1, heads).narrow(2, 3, length).copy_(tensor);
        }
        case Layout::expanded_heads:
            return tensor.narrow(1, 0, 1).contiguous().expand(tensor.sizes());
        case Layout::expanded_batch:
            return tensor.narrow(0, 0, 1).contiguous().expand(tensor.sizes());
        case Layout::padded_rows: {
            const int64_t pitch = unaligned_pitch(head_dim, tensor.element_size());
            return filled_with_nan({batch, heads, length, pitch}, tensor).narrow(3, 0, head_dim).copy_(tensor);
        }
        case Layout::padded_heads: {
            const int64_t pitch = unaligned_pitch(length * head_dim, tensor.element_size());
            const auto padded = filled_with_nan({batch, heads, pitch}, tensor);
            return padded.narrow(2, 0, length * head_dim).view(tensor.sizes()).copy_(tensor);
        }
        case Layout::shifted:
            return filled_with_nan({1 + tensor.numel()}, tensor)
                .narrow(0, 1, tensor.numel())
                .view(tensor.sizes())
                .copy_(tensor);
    }
    TORCH_CHECK(false, "reference: unknown layout ", static_cast<int>(layout));
}

AttentionInputs make_inputs(const AttentionCase& problem, torch::Device device) {
    TORCH_CHECK(problem.kv_heads > 0 && problem.query_heads % problem.kv_heads == 0, "reference: case ",
                describe(problem), " needs query heads in multiples of its kv heads");
    const auto values = make_values(problem);
    const auto place = [&](const torch::Tensor& x, Layout layout) {
        return with_layout(x.to(problem.dtype).to(device), layout);
    };
    return {place(values.q, problem.layouts.q), place(values.k, problem.layouts.k), place(values.v, problem.layouts.v)};
}

torch::Tensor make_scores(const AttentionCase& problem, torch::Device device) {
    TORCH_CHECK(problem.batch == 1 && problem.query_heads == 1 && problem.kv_heads == 1, "reference: case ",
                describe(problem), " must have one batch and one head to make a matrix of scores");
    const auto values = make_values(problem);
    const auto scores = at::matmul(values.q, values.k.transpose(2, 3)) * scale_of(problem);
    return with_layout(scores.to(problem.dtype).to(device), problem.layouts.q)[0][0];
}

}  // namespace ladder::reference
