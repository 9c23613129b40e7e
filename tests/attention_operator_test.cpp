#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>
#include <sstream>
#include <string>

#include "common/attention/attention.h"
#include "common/attention/outputs.h"
#include "common/attention/rungs.h"
#include "common/reference/cases.h"
#include "common/reference/checks.h"
#include "common/reference/gradient_cases.h"
#include "common/reference/gradient_comparison.h"
#include "common/reference/gradient_oracle.h"
#include "common/reference/oracle.h"
#include "common/reference/test_device.h"

namespace ladder {
namespace {

using namespace reference;

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN

struct Learning {
    torch::Tensor q, k, v;
};

Learning learning(const AttentionInputs& inputs) {
    const auto leaf = [](const torch::Tensor& x) { return x.detach().requires_grad_(); };
    return {leaf(inputs.q), leaf(inputs.k), leaf(inputs.v)};
}

AttentionGradients gradients(const std::vector<torch::Tensor>& results, const Learning& x,
                             const std::vector<torch::Tensor>& loss, bool twice = false) {
    const auto d = torch::autograd::grad(results, {x.q, x.k, x.v}, loss, twice, twice);
    return {.dq = d[0], .dk = d[1], .dv = d[2]};
}

class AttentionOperator : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(AttentionOperator, IsDifferentiatedAsTheOracleIs) {
    const AttentionCase& problem = GetParam();
    SCOPED_TRACE(describe(problem));
    const AttentionInputs inputs = make_inputs(problem, test_device());
    const LossGradients loss = make_loss_gradients(problem, test_device());
    const Learning x = learning(inputs);
    const AttentionResult result = attention_with_lse(x.q, x.k, x.v, problem.options);
    const AttentionResult given{result.out.detach(), result.lse.detach()};
    const Comparison forward = compare_attention(given, inputs.q, inputs.k, inputs.v, problem.options);
    EXPECT_TRUE(forward.passed) << forward.report;

    const Comparison both = compare_gradients(gradients({result.out, result.lse}, x, {loss.dout, loss.dlse}), inputs.q,
                                              inputs.k, inputs.v, given, loss.dout, problem.options, loss.dlse);
    EXPECT_TRUE(both.passed) << both.report;
    const torch::Tensor out = attention(x.q, x.k, x.v, problem.options);
    EXPECT_TRUE(same_bits(out.detach(), given.out));
    const Comparison alone = compare_gradients(gradients({out}, x, {loss.dout}), inputs.q, inputs.k, inputs.v, given,
                                               loss.dout, problem.options);
    EXPECT_TRUE(alone.passed) << alone.report;
}

INSTANTIATE_TEST_SUITE_P(Unmasked, AttentionOperator, ::testing::ValuesIn(every(3, standard_cases())), ByName{});
INSTANTIATE_TEST_SUITE_P(Causal, AttentionOperator, ::testing::ValuesIn(every(3, causal_cases())), ByName{});

AttentionInputs some_inputs() {
    return make_inputs(
        {.batch = 2, .query_heads = 4, .kv_heads = 2, .query_length = 20, .key_length = 27, .head_dim = 16},
        test_device());
}

/// The gradient of a sum is one number in every place, without memory of its own; that of the log-sum-exp comes alone.
TEST(Attention, TakesGradientsAsTheyCome) {
    const AttentionInputs inputs = some_inputs();
    const Learning x = learning(inputs);
    const AttentionResult result = attention_with_lse(x.q, x.k, x.v);
    const AttentionResult given{result.out.detach(), result.lse.detach()};
    const torch::Tensor ones = at::ones({1}, inputs.q.options()).expand(inputs.q.sizes());
    const Comparison of_sum =
        compare_gradients(gradients({result.out}, x, {ones}), inputs.q, inputs.k, inputs.v, given, ones.contiguous());
    EXPECT_TRUE(of_sum.passed) << of_sum.report;

    const AttentionResult again = attention_with_lse(x.q, x.k, x.v);
    const torch::Tensor dlse = at::ones({1}, given.lse.options()).expand(given.lse.sizes());
    const auto d = torch::autograd::grad({again.lse}, {x.q, x.k}, {dlse});
    const AttentionGradients exact = gradient_oracle(inputs.q, inputs.k, inputs.v, at::zeros_like(inputs.q), {}, dlse);
    EXPECT_TRUE(at::allclose(d[0].to(torch::kFloat64), exact.dq, 1e-4, 1e-6));
    EXPECT_TRUE(at::allclose(d[1].to(torch::kFloat64), exact.dk, 1e-4, 1e-6));
}

TEST(Attention, RepeatsBitwise) {
    const AttentionInputs inputs = some_inputs();
    const Learning x = learning(inputs);
    const torch::Tensor dout = at::randn(inputs.q.sizes(), inputs.q.options());
    const auto once = [&] { return gradients({attention(x.q, x.k, x.v)}, x, {dout}); };
    const AttentionGradients first = once(), second = once();
    EXPECT_TRUE(same_bits(first.dq, second.dq));
    EXPECT_TRUE(same_bits(first.dk, second.dk));
    EXPECT_TRUE(same_bits(first.dv, second.dv));
}

TEST(Attention, IsNotFollowedWhereNobodyAsks) {
    const AttentionInputs inputs = some_inputs();
    EXPECT_FALSE(attention(inputs.q, inputs.k, inputs.v).requires_grad());
    const Learning x = learning(inputs);
    EXPECT_TRUE(attention(x.q, x.k, x.v).requires_grad());
    EXPECT_TRUE(attention(inputs.q, inputs.k, x.v).requires_grad());
    const at::NoGradGuard nobody;
    EXPECT_FALSE(attention(x.q, x.k, x.v).requires_grad());
}

TEST(Attention, HasNoSecondDerivative) {
    const Learning x = learning(some_inputs());
    const AttentionGradients first =
        gradients({attention(x.q, x.k, x.v)}, x, {at::ones_like(x.q.detach())}, /*twice=*/true);
    EXPECT_TRUE(first.dq.requires_grad());
    // PyTorch 2.11's engine loses the words of what is thrown on its thread for a GPU, and asserts instead.
    const std::vector<std::string> words = {"flash_ladder::attention", "no second derivative", ".detach()"};
    EXPECT_TRUE(throws_mentioning([&] { torch::autograd::grad({first.dq.sum()}, {x.q}); },
                                  test_device().is_cpu() ? words : std::vector<std::string>{}));
}

TEST(Attention, RefusesBadInputBeforeAnythingIsLaunched) {
    for (const BadInput& bad : bad_inputs(test_device()))
        EXPECT_TRUE(throws_mentioning([&] { attention(bad.q, bad.k, bad.v, bad.options); }, bad.mentions)) << bad.name;
    const AttentionInputs inputs = some_inputs();
    EXPECT_TRUE(
        throws_mentioning([&] { attention(inputs.q, inputs.k, inputs.v, {.scale = {}, .mask = static_cast<Mask>(9)}); },
                          {"mask:", "causal_top_left"}));
}

TEST(Attention, SaysWhichRungsItTakesAndWhy) {
    const AttentionInputs inputs = some_inputs();
    const AttentionChoice choice = attention_choice(inputs.q, inputs.k, inputs.v);
    EXPECT_EQ(choice.forward, forward_rung(inputs.q, inputs.k, inputs.v, {}).name);
    EXPECT_EQ(choice.backward, backward_rung(inputs.q, inputs.k, inputs.v, {}).name);
    EXPECT_NE(choice.why.find("forward " + choice.forward + ": "), std::string::npos) << choice.why;
    EXPECT_NE(choice.why.find("\nbackward " + choice.backward + ": "), std::string::npos) << choice.why;
    EXPECT_NE(choice.why.find("\n  not "), std::string::npos)
        << choice.why << ": nobody objected to 20 queries, or to 32 bits";
}

TEST(Attention, NamesARungOnceInALine) {
    const AttentionInputs inputs = some_inputs();
    for (const auto dtype : {torch::kFloat32, torch::kFloat16}) {
        const auto given = [&](const torch::Tensor& t) { return t.to(dtype); };
        std::istringstream why(attention_choice(given(inputs.q), given(inputs.k), given(inputs.v)).why);
        for (std::string line; std::getline(why, line);) {
            const std::size_t name = line.starts_with("  not ") ? 6 : line.find(' ') + 1, colon = line.find(':', name);
            ASSERT_NE(colon, std::string::npos) << line;
            EXPECT_EQ(line.find(line.substr(name, colon - name), colon), std::string::npos) << line;
        }
    }
}

}  // namespace
}  // namespace ladder
