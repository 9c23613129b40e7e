// The oracle of gradients, held against finite differences; and its bound, which honest float32 must keep to and
// mistakes must not.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "common/reference/cases.h"
#include "common/reference/checks.h"
#include "common/reference/gradient_bound.h"
#include "common/reference/gradient_cases.h"
#include "common/reference/gradient_comparison.h"
#include "common/reference/gradient_heads.h"
#include "common/reference/gradient_oracle.h"
#include "common/reference/oracle.h"
#include "common/reference/test_device.h"

namespace ladder::reference {
namespace {

constexpr Mask kMasks[] = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};

double loss(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, const torch::Tensor& dout,
            const torch::Tensor& dlse, const AttentionOptions& options) {
    const AttentionResult result = attention_oracle(q, k, v, options);
    const torch::Tensor seen = at::isfinite(result.lse);
    return ((result.out * dout).sum() + (result.lse.masked_fill(seen.logical_not(), 0.0) * dlse).sum()).item<double>();
}

/// (loss(x + h) - loss(x - h)) / 2 h for every element of x.
torch::Tensor differences(const torch::Tensor& x, const std::function<double(const torch::Tensor&)>& loss_of) {
    constexpr double h = 1e-5;
    torch::Tensor result = at::zeros_like(x);
    for (int64_t n = 0; n < x.numel(); ++n) {
        const auto at = [&](double step) {
            torch::Tensor moved = x.clone();
            moved.view({-1})[n] += step;
            return loss_of(moved);
        };
        result.view({-1})[n] = (at(h) - at(-h)) / (2 * h);
    }
    return result;
}

AttentionResult rounded_oracle(const AttentionInputs& inputs, const AttentionOptions& options) {
    const AttentionResult exact = attention_oracle(inputs.q, inputs.k, inputs.v, options);
    return {exact.out.to(inputs.q.scalar_type()), exact.lse.to(torch::kFloat32)};
}

double distance(const torch::Tensor& a, const torch::Tensor& b) { return (a - b).abs().max().item<double>(); }

TEST(GradientOracle, AgreesWithFiniteDifferences) {
    for (const Mask mask : kMasks)
        for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{4, 3}, {3, 5}}) {
            torch::manual_seed(3);
            const auto random = [](at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble); };
            const torch::Tensor q = random({2, 4, queries, 3}), k = random({2, 2, keys, 3}),
                                v = random({2, 2, keys, 3});
            const torch::Tensor dout = random({2, 4, queries, 3}), dlse = random({2, 4, queries});
            const AttentionOptions options{.scale = 0.7, .mask = mask};
            const AttentionGradients exact = gradient_oracle(q, k, v, dout, options, dlse);
            const auto of_q = [&](const torch::Tensor& x) { return loss(x, k, v, dout, dlse, options); };
            const auto of_k = [&](const torch::Tensor& x) { return loss(q, x, v, dout, dlse, options); };
            const auto of_v = [&](const torch::Tensor& x) { return loss(q, k, x, dout, dlse, options); };
            EXPECT_LT(distance(exact.dq, differences(q, of_q)), 1e-8) << int(mask);
            EXPECT_LT(distance(exact.dk, differences(k, of_k)), 1e-8) << int(mask);
            EXPECT_LT(distance(exact.dv, differences(v, of_v)), 1e-8) << int(mask);
            EXPECT_GT(exact.dq.abs().max().item<double>(), 0.1);
        }
}

TEST(GradientOracle, RowsThatSeeNothingGetZeroAndGiveNothing) {
    torch::manual_seed(4);
    const torch::Tensor q = at::randn({1, 1, 5, 4}), k = at::randn({1, 1, 2, 4}), v = at::randn({1, 1, 2, 4});
    const torch::Tensor dout = at::randn({1, 1, 5, 4}), dlse = at::randn({1, 1, 5});
    const AttentionOptions options{.scale = {}, .mask = Mask::causal_bottom_right};  // the first three see nothing
    const AttentionGradients all = gradient_oracle(q, k, v, dout, options, dlse);
    EXPECT_EQ(all.dq.narrow(2, 0, 3).abs().max().item<double>(), 0.0);
    const auto last = [](const torch::Tensor& x) { return x.narrow(2, 3, 2); };
    const AttentionGradients alone = gradient_oracle(last(q), k, v, last(dout), options, last(dlse));
    EXPECT_LT(distance(all.dk, alone.dk), 1e-14);
    EXPECT_LT(distance(all.dv, alone.dv), 1e-14);
    const AttentionGradients bound = gradient_bound(q, k, v, rounded_oracle({q, k, v}, options), dout, options, dlse);
    EXPECT_LT(bound.dq.narrow(2, 0, 3).max().item<double>(), 1e-30);  // all but exact
}

// ---- The bound ---------------------------------------------------------------------------------------------------

class GradientBound : public ::testing::TestWithParam<AttentionCase> {};

using Product = torch::Tensor(const torch::Tensor&, const torch::Tensor&);

torch::Tensor product_of_torch(const torch::Tensor& a, const torch::Tensor& b) { return at::matmul(a, b); }

/// Sums one after another, whatever torch was given to multiply with.
torch::Tensor product_in_order(const torch::Tensor& a, const torch::Tensor& b) {
    torch::Tensor sum = at::zeros({a.size(0), b.size(1)}, a.options());
    for (int64_t n = 0; n < a.size(1); ++n) sum = sum + a.select(1, n).unsqueeze(1) * b.select(0, n);
    return sum;
}

/// The backward pass as FlashAttention has it, in plain float32 products.
AttentionGradients plain_float32(const AttentionInputs& inputs, const LossGradients& from,
                                 const AttentionOptions& options, Product& product) {
    const auto differentiate = [&product](const Head& head, const HeadGradients& loss) -> AttentionGradients {
        const torch::Tensor hidden = head.visible.logical_not();
        const torch::Tensor S = product(head.q, head.k.t()) * head.scale;
        const torch::Tensor P = at::exp(S - loss.given.lse.unsqueeze(-1)).masked_fill(hidden, 0.0);
        const torch::Tensor D = (loss.dout * loss.given.out).sum(-1) - loss.dlse;
        const torch::Tensor dP = product(loss.dout, head.v.t());
        const torch::Tensor dS = (P * (dP - D.unsqueeze(-1))).masked_fill(hidden, 0.0);
        return {product(dS, head.k) * head.scale, product(dS.t(), head.q) * head.scale, product(P.t(), loss.dout)};
    };
    return differentiate_each_head(inputs.q, inputs.k, inputs.v, from.dout, options, from.dlse,
                                   rounded_oracle(inputs, options), torch::kFloat32, differentiate);
}

TEST_P(GradientBound, PlainTorchKeepsToIt) {
    const AttentionInputs inputs = make_inputs(GetParam(), test_device());
    const LossGradients from = make_loss_gradients(GetParam(), test_device());
    const auto& [q, k, v] = inputs;
    const AttentionOptions& options = GetParam().options;
    const AttentionGradients actual = GetParam().dtype == torch::kFloat32
                                          ? plain_float32(inputs, from, options, product_of_torch)
                                          : gradients_low_precision(q, k, v, from.dout, options, from.dlse);
    const Comparison verdict =
        compare_gradients(actual, q, k, v, rounded_oracle(inputs, options), from.dout, options, from.dlse);
    EXPECT_TRUE(verdict.passed) << verdict.report;
}

INSTANTIATE_TEST_SUITE_P(standard, GradientBound, ::testing::ValuesIn(every(3, standard_cases())), ByName{});
INSTANTIATE_TEST_SUITE_P(causal, GradientBound, ::testing::ValuesIn(every(3, causal_cases())), ByName{});

/// Against what the rule for 16 bits would allow in float32, as tests/error_bound_test.cpp does for the forward pass.
TEST(GradientBound, IsNarrowForOrdinaryInputs) {
    if (not_run_on_gpu("how wide a bound is does not depend on who computes it")) return;
    std::vector<double> widths;
    for (const AttentionCase& problem : every(3, standard_cases())) {
        if (problem.dtype != torch::kFloat32 || problem.family != Family::normal || problem.key_length < 16) continue;
        const AttentionInputs inputs = make_inputs(problem, test_device());
        const LossGradients from = make_loss_gradients(problem, test_device());
        const auto& [q, k, v] = inputs;
        const AttentionGradients bound =
            gradient_bound(q, k, v, rounded_oracle(inputs, problem.options), from.dout, problem.options, from.dlse);
        const AttentionGradients oracle = gradient_oracle(q, k, v, from.dout, problem.options, from.dlse);
        const AttentionGradients plain = plain_float32(inputs, from, problem.options, product_in_order);
        const auto look = [&](torch::Tensor AttentionGradients::*gradient) {
            const auto largest = [](const torch::Tensor& x) { return x.abs().max().item<double>(); };
            const double exact = largest(oracle.*gradient);
            const double ruled = 2.0 * distance((plain.*gradient).to(torch::kFloat64), oracle.*gradient) +
                                 error_floor(torch::kFloat32, exact, exact);
            widths.push_back(largest(bound.*gradient) / ruled);
        };
        look(&AttentionGradients::dq);
        look(&AttentionGradients::dk);
        look(&AttentionGradients::dv);
    }
    std::sort(widths.begin(), widths.end());
    const double median = widths[widths.size() / 2], widest = widths.back();
    std::cout << "bounds in units of what a factor of two and a floor would allow: median " << median << ", widest "
              << widest << "\n";
    EXPECT_GT(median, 1.0);
    EXPECT_LE(median, 8.0);
    EXPECT_LE(widest, 64.0);  // sums over the queries of eight heads
}

TEST(GradientBound, MistakesDoNot) {
    const AttentionCase problem{
        .query_heads = 2, .query_length = 40, .key_length = 70, .head_dim = 32, .options = {.scale = 0.2}, .seed = 5};
    const AttentionInputs inputs = make_inputs(problem, test_device());
    const LossGradients from = make_loss_gradients(problem, test_device());
    const auto judged = [&](const AttentionGradients& actual) {
        return compare_gradients(actual, inputs.q, inputs.k, inputs.v, rounded_oracle(inputs, problem.options),
                                 from.dout, problem.options, from.dlse);
    };
    const AttentionGradients right = plain_float32(inputs, from, problem.options, product_in_order);
    EXPECT_TRUE(judged(right).passed);
    const auto expect_wrong = [&](const std::string& what, const AttentionGradients& actual) {
        const Comparison verdict = judged(actual);
        EXPECT_FALSE(verdict.passed) << what;
        EXPECT_GT(verdict.max_abs_error, 3 * verdict.bound) << what << ": " << verdict.report;
    };
    const AttentionGradients no_dlse =
        gradients_low_precision(inputs.q, inputs.k, inputs.v, from.dout, problem.options);
    expect_wrong("dLSE left out", no_dlse);
    expect_wrong("dLSE with the wrong sign",
                 gradients_low_precision(inputs.q, inputs.k, inputs.v, from.dout, problem.options, -from.dlse));
    expect_wrong("dQ without the scale", {right.dq / 0.2, right.dk, right.dv});
    expect_wrong("dK without the scale", {right.dq, right.dk / 0.2, right.dv});
    expect_wrong("the scale 0.1 % too large",
                 gradients_low_precision(inputs.q, inputs.k, inputs.v, from.dout, {.scale = 0.2002}, from.dlse));
    expect_wrong("dK and dV exchanged", {right.dq, right.dv, right.dk});
    torch::Tensor rounded = right.dv.to(torch::kBFloat16).to(torch::kFloat32);
    expect_wrong("dV rounded to 16 bits", {right.dq, right.dk, rounded});
    torch::Tensor hole = right.dk.clone();
    hole[0][0][69][31] = NAN;
    EXPECT_FALSE(judged({right.dq, hole, right.dv}).passed);
}

}  // namespace
}  // namespace ladder::reference
