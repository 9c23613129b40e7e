// The bound of float32 (common/reference/error_bound.h) must let every plain kernel pass, whatever the order of its
// sums, and refuse what only looks like one. Attention is written out here in plain loops, in many orders.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/reference/cases.h"
#include "common/reference/checks.h"
#include "common/reference/comparison.h"
#include "common/reference/error_bound.h"
#include "common/reference/inputs.h"
#include "common/reference/low_precision.h"
#include "common/reference/oracle.h"
#include "common/torch/torch.h"

namespace ladder::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// In which order terms are added.
enum class Order { forwards, backwards, in_lanes, as_a_tree };

/// One of the many kernels that do nothing wrong.
struct Plain {
    std::string name;
    Order columns = Order::forwards;  ///< of a score's sum
    Order keys = Order::forwards;     ///< of the sums over a tile's keys
    int64_t tile = 64;                ///< keys, after which the maximum may move
    int64_t splits = 1;               ///< parts of the keys, merged by their log-sum-exp
    bool fused = true;                ///< multiply-adds round once
    bool base_two = false;            ///< the scale takes log2(e) in, exponents are one fused multiply-add
    bool apart = false;               ///< a tile's sums begin at 0 and are added to the row's
    float exp_error = 0;              ///< relative, of each exponential: as a GPU's fast one may have it
};

std::ostream& operator<<(std::ostream& stream, const Plain& plain) { return stream << plain.name; }

std::vector<Plain> plain_kernels() {
    return {{.name = "in_turn"},
            {.name = "in_turn_from_the_back", .columns = Order::backwards, .keys = Order::backwards},
            {.name = "in_turn_unfused", .fused = false},
            {.name = "in_lanes", .columns = Order::in_lanes, .keys = Order::in_lanes},
            {.name = "as_a_tree", .columns = Order::as_a_tree, .keys = Order::as_a_tree, .fused = false},
            {.name = "in_base_two", .base_two = true},
            {.name = "tiles_apart", .tile = 32, .base_two = true, .apart = true},
            {.name = "maximum_first", .tile = 1 << 30, .fused = false},
            {.name = "key_by_key", .tile = 1, .fused = false},
            {.name = "in_splits", .splits = 5, .base_two = true},
            {.name = "exp_too_large", .base_two = true, .exp_error = 0x1p-22f},
            {.name = "exp_too_small", .splits = 3, .exp_error = -0x1p-22f}};
}

float multiply_add(float a, float b, float c, bool fused) {
    if (fused) return std::fma(a, b, c);
    const volatile float product = a * b;  // so that the compiler does not fuse them
    return product + c;
}

/// Adds the n products x[i] * y[i * stride] to `start`.
float dot(const float* x, const float* y, int64_t stride, int64_t n, Order order, bool fused, float start = 0) {
    switch (order) {
        case Order::forwards:
            for (int64_t i = 0; i < n; ++i) start = multiply_add(x[i], y[i * stride], start, fused);
            return start;
        case Order::backwards:
            for (int64_t i = n; i-- > 0;) start = multiply_add(x[i], y[i * stride], start, fused);
            return start;
        case Order::in_lanes: {
            std::array<float, 8> lanes{};
            for (int64_t i = 0; i < n; ++i) lanes[i % 8] = multiply_add(x[i], y[i * stride], lanes[i % 8], fused);
            for (int64_t reach = 4; reach > 0; reach /= 2)
                for (int64_t lane = 0; lane < reach; ++lane) lanes[lane] += lanes[lane + reach];
            return start + lanes[0];
        }
        case Order::as_a_tree:
            if (n <= 1) return n == 0 ? start : multiply_add(x[0], y[0], start, fused);
            return start + (dot(x, y, stride, n / 2, order, fused) +
                            dot(x + n / 2, y + n / 2 * stride, stride, n - n / 2, order, fused));
    }
    return start;
}

/// A row's result over some of the keys.
struct Row {
    std::vector<float> out;
    float lse = -kInfinity;
};

/// What a row of attention is made of. Tensors are contiguous: q [D], k and v [keys, D].
struct RowProblem {
    const float* q;
    const float* k;
    const float* v;
    int64_t head_dim;
    double scale;
};

Row attend(const Plain& plain, const RowProblem& p, int64_t first, int64_t last) {
    const int64_t D = p.head_dim;
    const float scale = float(p.scale) * (plain.base_two ? 1.44269504f : 1.0f);
    const auto exponential = [&](float x) {
        return (plain.base_two ? std::exp2(x) : std::exp(x)) * (x == 0 ? 1 : 1 + plain.exp_error);
    };
    float m = -kInfinity, l = 0;
    Row row{std::vector<float>(D, 0.0f)};
    for (int64_t start = first; start < last; start += plain.tile) {
        const int64_t keys = std::min(plain.tile, last - start);
        std::vector<float> weights(keys);
        float m_new = m;
        for (int64_t j = 0; j < keys; ++j) {
            weights[j] = dot(p.q, p.k + (start + j) * D, 1, D, plain.columns, plain.fused);
            if (!plain.base_two) weights[j] *= scale;
            m_new = std::max(m_new, plain.base_two ? weights[j] * scale : weights[j]);
        }
        for (float& w : weights) w = exponential(plain.base_two ? std::fma(w, scale, -m_new) : w - m_new);
        const float rescale = m == m_new ? 1.0f : exponential(m - m_new);
        const std::vector<float> ones(keys, 1.0f);
        const auto onto = [&](float old, const float* column, int64_t stride) {
            const float kept = old * rescale;
            if (!plain.apart) return dot(weights.data(), column, stride, keys, plain.keys, plain.fused, kept);
            return kept + dot(weights.data(), column, stride, keys, plain.keys, plain.fused);
        };
        l = onto(l, ones.data(), 1);
        for (int64_t d = 0; d < D; ++d) row.out[d] = onto(row.out[d], p.v + start * D + d, D);
        m = m_new;
    }
    for (float& o : row.out) o /= l;
    row.lse = plain.base_two ? (m + std::log2(l)) * 0.69314718f : m + std::log(l);
    return row;
}

Row attend_in_splits(const Plain& plain, const RowProblem& p, int64_t keys) {
    const int64_t splits = std::min(plain.splits, keys);
    std::vector<Row> parts;
    for (int64_t n = 0; n < splits; ++n) parts.push_back(attend(plain, p, keys * n / splits, keys * (n + 1) / splits));
    if (splits == 1) return parts.front();
    float m = -kInfinity, l = 0;
    for (const Row& part : parts) m = std::max(m, part.lse);
    for (const Row& part : parts) l += std::exp(part.lse - m);
    Row row{std::vector<float>(p.head_dim, 0.0f), m + std::log(l)};
    for (const Row& part : parts)
        for (int64_t d = 0; d < p.head_dim; ++d) row.out[d] += std::exp(part.lse - row.lse) * part.out[d];
    return row;
}

/// q [1, 1, Sq, D], k and v [1, 1, Sk, D], all float32 on the CPU.
AttentionResult attend(const Plain& plain, const AttentionInputs& inputs, const AttentionOptions& options = {}) {
    const torch::Tensor q = inputs.q.contiguous(), k = inputs.k.contiguous(), v = inputs.v.contiguous();
    const int64_t queries = q.size(2), keys = k.size(2), D = q.size(3);
    AttentionResult result{at::empty_like(q), at::empty({1, 1, queries}, q.options())};
    for (int64_t i = 0; i < queries; ++i) {
        const RowProblem p{q.data_ptr<float>() + i * D, k.data_ptr<float>(), v.data_ptr<float>(), D,
                           options.scale.value_or(1 / std::sqrt(double(D)))};
        const int64_t seen = options.mask == Mask::none ? keys : std::min(keys, i + 1);
        const Row row = attend_in_splits(plain, p, seen);
        std::copy(row.out.begin(), row.out.end(), result.out.data_ptr<float>() + i * D);
        result.lse.data_ptr<float>()[i] = row.lse;
    }
    return result;
}

double excess(const Comparison& verdict) { return verdict.max_abs_error / verdict.bound; }

::testing::AssertionResult passes(const Plain& plain, const AttentionInputs& inputs,
                                  const AttentionOptions& options = {}) {
    const Comparison verdict = compare_attention(attend(plain, inputs, options), inputs.q, inputs.k, inputs.v, options);
    return (verdict.passed ? ::testing::AssertionSuccess() : ::testing::AssertionFailure()) << verdict.report;
}

class PlainOrders : public ::testing::TestWithParam<Plain> {};

constexpr std::array kFamilies{
    Family::normal,        Family::scores_near_minus_1000, Family::one_huge_logit, Family::equal_scores,
    Family::index_ramp,    Family::offset_values,          Family::tiny,           Family::rising_scores,
    Family::falling_scores};

TEST_P(PlainOrders, pass_on_every_family) {
    for (const Family family : kFamilies)
        for (const int64_t head_dim : {1, 16, 64, 128, 256})
            for (const int64_t keys : {1, 33, 257, 1500}) {
                if (family == Family::index_ramp && keys > 1000) continue;  // see is_decidable (common/fuzz/draw.h)
                const AttentionCase problem{.query_length = keys > 1000 ? 2 : 7,
                                            .key_length = keys,
                                            .head_dim = head_dim,
                                            .family = family,
                                            .seed = std::uint64_t(head_dim + keys)};
                EXPECT_TRUE(passes(GetParam(), make_inputs(problem, torch::kCPU))) << describe(problem);
            }
}

/// Each repetition (--gtest_repeat) draws others.
TEST_P(PlainOrders, pass_on_random_problems) {
    static std::map<std::string, std::uint64_t> drawn;
    std::uint64_t& seed = drawn[GetParam().name];
    for (int n = 0; n < 60; ++n, ++seed) {
        at::manual_seed(seed);
        const auto below = [](int64_t limit) { return at::randint(limit, {1}, at::kLong).item<int64_t>(); };
        AttentionCase problem{.query_length = 1 + below(8),
                              .key_length = 1 + below(500),
                              .head_dim = 1 + below(256),
                              .family = kFamilies[std::size_t(below(kFamilies.size()))],
                              .seed = seed};
        if (below(3) == 0) problem.options.mask = Mask::causal_top_left;
        if (below(3) == 0) problem.options.scale = std::array{0.0625, 0.3, 1.0}[std::size_t(below(3))];
        EXPECT_TRUE(passes(GetParam(), make_inputs(problem, torch::kCPU), problem.options)) << describe(problem);
    }
}

/// Inputs that make roundings go one way, or sums pass through numbers much larger than what remains.
TEST_P(PlainOrders, pass_on_what_is_made_to_be_hard) {
    constexpr int64_t queries = 3, keys = 300;
    const auto filled = [](int64_t rows, int64_t head_dim, double x) {
        return at::full({1, 1, rows, head_dim}, x, at::kFloat);
    };
    for (const int64_t D : {16, 64, 128, 256}) {
        at::manual_seed(std::uint64_t(D));
        const auto random = [&](int64_t rows) { return at::randn({1, 1, rows, D}, at::kFloat); };
        const auto expect_passes = [&](const char* what, const AttentionInputs& inputs,
                                       const AttentionOptions& options) {
            EXPECT_TRUE(passes(GetParam(), inputs, options)) << what << ", D = " << D;
        };
        // Beyond 128, 2^-17 is half of a float's last digit; below it is a whole one.
        torch::Tensor large = at::full({D}, 128.0 / double(D) + std::ldexp(1.0, -17), at::kFloat);
        large[0] = 128.0 + 128.0 / double(D);
        for (const torch::Tensor& key : {large, large.flip(0), -large}) {
            torch::Tensor k = filled(keys, D, 0);
            k.narrow(2, 0, 50).copy_(key);
            expect_passes("large sums", {filled(queries, D, 1), k, filled(keys, D, 1)}, {.scale = std::log(2.0) / 8});
        }
        // 1 swallows each of the others.
        torch::Tensor swallowed = filled(keys, D, 0x1.fp-25);
        swallowed.select(-1, 0).fill_(1);
        for (const torch::Tensor& k : {swallowed, swallowed.flip(-1)})
            expect_passes("swallowed terms", {filled(queries, D, 1), k, random(keys)}, {.scale = 1.0});
        expect_passes("equal terms", {filled(queries, D, 0.7), filled(keys, D, 0.3), filled(keys, D, 0.1)}, {});
        torch::Tensor outlier = random(keys);
        const torch::Tensor q = random(queries);
        q.select(-1, 0).fill_(1);
        q.select(-1, D - 1).fill_(1);
        for (const int64_t key : {3, 150}) {
            outlier[0][0][key].zero_();
            outlier[0][0][key][0] = 1e7;
            outlier[0][0][key][D - 1] = -1e7 - 1000;
        }
        expect_passes("outliers", {q, outlier, random(keys)}, {});
        const torch::Tensor sorted = std::get<0>(at::sort(random(keys), 2));
        expect_passes("sorted values", {random(queries), random(keys), sorted}, {});
        expect_passes("large values of one sign", {random(queries), random(keys), random(keys) + 1000}, {});
        for (const int power : {5, 10, 15, 20, 23}) {
            torch::Tensor k = random(keys);
            k.select(-1, 0).add_(std::ldexp(std::sqrt(double(D)), power));
            torch::Tensor ones = random(queries);
            ones.select(-1, 0).fill_(1);
            expect_passes("scores of a power of 2", {ones, k, random(keys)}, {});
            expect_passes("negative scores of a power of 2", {-ones, k, random(keys)}, {});
        }
        const torch::Tensor creeping = filled(keys, D, 0);  // the maximum moves with each key, and all keys count
        creeping.select(-1, 0).copy_(at::linspace(1000, 1001, keys, at::kFloat));
        expect_passes("creeping maximum", {filled(queries, D, 1), creeping, random(keys)}, {.scale = 1.0});
    }
}

TEST_P(PlainOrders, pass_with_131072_keys) {
    for (const Family family : {Family::normal, Family::equal_scores, Family::rising_scores, Family::offset_values}) {
        const AttentionCase problem{
            .query_length = 1, .key_length = 131072, .head_dim = 8, .family = family, .seed = 5};
        EXPECT_TRUE(passes(GetParam(), make_inputs(problem, torch::kCPU))) << describe(problem);
    }
}

INSTANTIATE_TEST_SUITE_P(all, PlainOrders, ::testing::ValuesIn(plain_kernels()), ByName{});

// ---- what must not pass --------------------------------------------------------------------------------------------

torch::Tensor rounded(const torch::Tensor& x, torch::ScalarType dtype) { return x.to(dtype).to(x.scalar_type()); }

/// A sum over dimension 0, kept in a 16-bit type from term to term.
torch::Tensor sum_kept_in(torch::ScalarType dtype, const torch::Tensor& terms) {
    torch::Tensor sum = at::zeros_like(terms[0]);
    for (int64_t n = 0; n < terms.size(0); ++n) sum = rounded(sum + terms[n], dtype);
    return sum;
}

/// How many times its bound the worst element of a wrong result is off, on normal inputs.
struct WrongAnswers {
    int64_t head_dim, keys;
    AttentionInputs inputs = make_inputs({.query_heads = 2,
                                          .kv_heads = 2,
                                          .query_length = 9,
                                          .key_length = keys,
                                          .head_dim = head_dim,
                                          .seed = std::uint64_t(keys)},
                                         torch::kCPU);
    const torch::Tensor &q = inputs.q, &k = inputs.k, &v = inputs.v;
    AttentionResult right = attention_low_precision(q, k, v);

    double excess_of(const AttentionResult& wrong) const {
        const AttentionResult oracle = attention_oracle(q, k, v);
        const ErrorBound bound = attention_bound(q, k, v);
        return std::max(excess(compare_within(wrong.out, oracle.out, bound.out)),
                        excess(compare_within(wrong.lse, oracle.lse, bound.lse)));
    }
    torch::Tensor weights() const { return at::softmax(scores(), -1); }
    torch::Tensor scores() const { return at::matmul(q, k.transpose(-1, -2)) / std::sqrt(double(head_dim)); }
    AttentionResult of_keys(int64_t first, int64_t count) const {
        return attention_low_precision(q, k.narrow(2, first, count), v.narrow(2, first, count));
    }
};

TEST(FloatBound, refuses_mistakes_by_a_factor_of_three) {
    for (const auto& [head_dim, keys] :
         {std::pair<int64_t, int64_t>(16, 40), {48, 129}, {64, 200}, {192, 257}, {256, 300}}) {
        const WrongAnswers w{head_dim, keys};
        const double scale = 1 / std::sqrt(double(head_dim));
        const auto expect_refused = [&](const char* mistake, const AttentionResult& wrong) {
            EXPECT_GT(w.excess_of(wrong), 3) << mistake << ", D = " << head_dim << ", " << keys << " keys";
        };
        EXPECT_LT(w.excess_of(w.right), 1);
        expect_refused("last key lost", w.of_keys(0, keys - 1));
        expect_refused("first key lost", w.of_keys(1, keys - 1));
        expect_refused("scale 1 % too large", attention_low_precision(w.q, w.k, w.v, {.scale = 1.01 * scale}));
        expect_refused("scale 0.1 % too small", attention_low_precision(w.q, w.k, w.v, {.scale = 0.999 * scale}));
        expect_refused(
            "scale of the next power of 2's D",
            attention_low_precision(w.q, w.k, w.v, {.scale = 1 / std::exp2(std::ceil(std::log2(head_dim + 1) / 2))}));
        expect_refused("heads swapped", attention_low_precision(w.q, w.k.flip(1), w.v.flip(1)));
        expect_refused("one key's value in place of another's", attention_low_precision(w.q, w.k, w.v.roll(1, 2)));
        expect_refused("LSE in base 2", {w.right.out, w.right.lse * 1.44269504f});
        expect_refused("LSE without the maximum",
                       {w.right.out, at::logsumexp(w.scores() - w.scores().amax(-1, true), -1)});
        const torch::Tensor l = at::exp(w.scores() - w.scores().amax(-1, true)).sum(-1, true);
        expect_refused("no division", {w.right.out * l, w.right.lse});
        expect_refused("q rounded to bfloat16", attention_low_precision(rounded(w.q, torch::kBFloat16), w.k, w.v));
        if (head_dim <= 64)  // of 256 products in turn, roundings may add up to as much
            expect_refused("q, k rounded to float16",
                           attention_low_precision(rounded(w.q, torch::kFloat16), rounded(w.k, torch::kFloat16), w.v));
        expect_refused("weights in bfloat16", {at::matmul(rounded(w.weights(), torch::kBFloat16), w.v), w.right.lse});
        for (const auto dtype : {torch::kFloat16, torch::kBFloat16}) {
            const torch::Tensor terms =
                w.weights().permute({3, 0, 1, 2}).unsqueeze(-1) * w.v.permute({2, 0, 1, 3}).unsqueeze(3);
            expect_refused("O kept in 16 bits", {sum_kept_in(dtype, terms), w.right.lse});
            const torch::Tensor m = w.scores().amax(-1, true);
            const torch::Tensor sum = sum_kept_in(dtype, at::exp(w.scores() - m).permute({3, 0, 1, 2}));
            expect_refused("l kept in 16 bits", {w.right.out, m.squeeze(-1) + at::log(sum)});
        }
        torch::Tensor hole = w.right.out.clone();
        hole[0][1][8][head_dim - 1] = std::numeric_limits<float>::quiet_NaN();
        expect_refused("an element not written", {hole, w.right.lse});
        torch::Tensor stale = w.right.out.clone();
        stale[0][1][8].copy_(stale[0][1][7]);
        expect_refused("the row before", {stale, w.right.lse});
    }
}

/// What the rule was before, for O and for LSE: twice the error of plain torch, and a floor.
std::array<double, 2> old_bounds(const AttentionInputs& t, const AttentionOptions& options) {
    const AttentionResult oracle = attention_oracle(t.q, t.k, t.v, options);
    const AttentionResult fair = attention_low_precision(t.q, t.k, t.v, options);
    const double out =
        2 * (fair.out - oracle.out).abs().max().item<double>() +
        error_floor(torch::kFloat32, oracle.out.abs().max().item<double>(), t.v.abs().max().item<double>());
    const torch::Tensor finite = oracle.lse.masked_select(at::isfinite(oracle.lse));
    const double largest = finite.numel() ? finite.abs().max().item<double>() : 0, magnitude = std::max(1.0, largest);
    const torch::Tensor off = (fair.lse - oracle.lse).abs();
    return {out, 2 * off.masked_fill(off.isnan(), 0).max().item<double>() +
                     error_floor(torch::kFloat32, largest, magnitude)};
}

/// The largest of four draws: of one query and two keys, a draw may happen to have next to no error.
std::array<double, 2> old_bounds(AttentionCase problem) {
    std::array<double, 2> largest{};
    for (int draw = 0; draw < 4; ++draw, ++problem.seed) {
        const auto [out, lse] = old_bounds(make_inputs(problem, torch::kCPU), problem.options);
        largest = {std::max(largest[0], out), std::max(largest[1], lse)};
    }
    return largest;
}

/// The table of docs/numerics.md: the new bound's widest element, in units of twice plain torch's error and its floor.
TEST(FloatBound, is_at_most_16_times_what_plain_torch_allowed_on_ordinary_inputs) {
    std::map<std::string, std::array<std::vector<double>, 2>> ratios;
    std::vector<AttentionCase> cases = standard_cases();
    for (const AttentionCase& problem : causal_cases()) cases.push_back(problem);
    for (AttentionCase& problem : cases) {
        problem.dtype = torch::kFloat32;
        const AttentionInputs t = make_inputs(problem, torch::kCPU);
        const ErrorBound bound = attention_bound(t.q, t.k, t.v, problem.options);
        const auto [old_out, old_lse] = old_bounds(problem);
        const double out = bound.out.max().item<double>() / old_out;
        const double lse =
            bound.lse.masked_fill(at::isfinite(bound.lse).logical_not(), 0).max().item<double>() / old_lse;
        const bool ordinary = problem.family == Family::normal && !problem.options.scale;
        auto& of_family =
            ratios[problem.options.scale ? "normal, with a scale of its own" : std::string(name_of(problem.family))];
        of_family[0].push_back(out);
        of_family[1].push_back(lse);
        if (ordinary) {
            EXPECT_LE(out, 16) << problem;
            EXPECT_LE(lse, 16) << problem;
        }
    }
    std::puts(
        "| inputs | cases | out: median | out: largest | lse: median | lse: largest |\n|---|---|---|---|---|---|");
    for (auto& [family, both] : ratios) {
        std::printf("| %s | %zu |", family.c_str(), both[0].size());
        for (std::vector<double>& one : both) {
            std::sort(one.begin(), one.end());
            std::printf(" %.1f | %.1f |", one[one.size() / 2], one.back());
        }
        std::puts("");
    }
}

TEST(FloatBound, means_nothing_where_the_answer_is_not_finite) {
    at::manual_seed(8);
    const auto random = [] { return at::randn({1, 1, 5, 16}); };
    for (const float unusual : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
        const AttentionInputs t{random().abs(), random(), random()};
        t.k[0][0][2][7] = unusual;  // for the rows that see it
        const AttentionOptions options{.scale = {}, .mask = Mask::causal_top_left};
        const AttentionResult right = attention_low_precision(t.q, t.k, t.v, options);
        const Comparison verdict = compare_attention(right, t.q, t.k, t.v, options);
        EXPECT_TRUE(verdict.passed) << verdict.report;
        for (const int64_t row : {1, 4}) {
            AttentionResult wrong{right.out.clone(), right.lse};
            wrong.out[0][0][row][3] = std::isfinite(right.out[0][0][row][3].item<float>()) ? unusual : 0.0f;
            EXPECT_FALSE(compare_attention(wrong, t.q, t.k, t.v, options).passed) << unusual << ", row " << row;
        }
    }
}

TEST(FloatBound, grows_with_the_scores_and_ends_where_floats_do) {
    const auto widest = [](double size) {
        at::manual_seed(3);
        const AttentionInputs t{at::ones({1, 1, 2, 64}), at::randn({1, 1, 70, 64}), at::randn({1, 1, 70, 64})};
        t.k.select(-1, 0).add_(size);
        return attention_bound(t.q, t.k, t.v, {.scale = 1.0}).out.max().item<double>();
    };
    EXPECT_LT(widest(1), 1e-3);
    EXPECT_LT(widest(0x1p10), 0.02);
    EXPECT_LT(widest(0x1p15), 1);  // still tells one value from another
    EXPECT_GT(widest(0x1p24), 1);
    EXPECT_LT(widest(0x1p5), widest(0x1p10));
}

}  // namespace
}  // namespace ladder::reference
