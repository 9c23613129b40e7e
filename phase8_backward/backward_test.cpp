#include "phase8_backward/backward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "common/attention/outputs.h"
#include "common/reference/checks.h"
#include "common/reference/gradient_cases.h"
#include "common/reference/gradient_comparison.h"
#include "common/reference/gradient_oracle.h"
#include "common/reference/oracle.h"
#include "common/reference/test_device.h"
#include "common/simt/report/launch_log.h"

namespace ladder {
namespace {

using namespace reference;

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN

constexpr Mask kMasks[] = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};
constexpr DqGather kGathers[] = {DqGather::second_pass, DqGather::atomics};

using Given = BackwardInputs;

Given given(const AttentionCase& problem) { return make_backward_inputs(problem, test_device()); }

AttentionGradients call(const Given& g, DqGather gather, bool with_dlse = true) {
    return plain_backward(g.dout, g.q, g.k, g.v, g.out, g.lse, g.options, {.gather = gather},
                          with_dlse ? std::optional(g.dlse) : std::nullopt);
}

/// Runs a case both ways, and holds each against the oracle.
void check(const AttentionCase& problem, bool with_dlse) {
    SCOPED_TRACE(describe(problem));
    const Given g = given(problem);
    for (const DqGather gather : kGathers) {
        const MemoryWatch watch({{"q", g.q}, {"k", g.k}, {"v", g.v}, {"dout", g.dout}, {"out", g.out}, {"lse", g.lse}});
        const Comparison verdict = compare_gradients(call(g, gather, with_dlse), g.q, g.k, g.v, {g.out, g.lse}, g.dout,
                                                     g.options, with_dlse ? std::optional(g.dlse) : std::nullopt);
        EXPECT_TRUE(verdict.passed) << (gather == DqGather::atomics ? "atomics" : "second pass") << "\n"
                                    << verdict.report;
        EXPECT_TRUE(watch.written().empty()) << watch.written().front() << ": the entry wrote to its input";
    }
}

class BackwardStandard : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(BackwardStandard, MatchesOracle) {
    check(GetParam(), /*with_dlse=*/std::hash<std::string>()(GetParam().name) % 2);
}

INSTANTIATE_TEST_SUITE_P(Unmasked, BackwardStandard, ::testing::ValuesIn(standard_cases()), ByName{});
INSTANTIATE_TEST_SUITE_P(Causal, BackwardStandard, ::testing::ValuesIn(causal_cases()), ByName{});

/// The example of README.md, whose every number is computed by hand there.
TEST(Backward, GivesTheExampleByHand) {
    const float ln3 = std::log(3.0f);
    const auto rows = [](float a, float b, float c, float d) {
        return at::tensor({a, b, c, d}).view({1, 1, 2, 2}).to(test_device());
    };
    const torch::Tensor q = rows(1, 0, 0, 0), k = rows(ln3, 0, 0, 1), v = rows(1, 0, 0, 2);
    const torch::Tensor out = rows(0.75f, 0.5f, 0.5f, 1), dout = rows(4, 8, 2, -2);
    const torch::Tensor lse = at::tensor({std::log(4.0f), std::log(2.0f)}).view({1, 1, 2}).to(test_device());
    const torch::Tensor dlse = at::tensor({4.0f, 0.0f}).view({1, 1, 2}).to(test_device());
    const auto near = [](const torch::Tensor& a, const torch::Tensor& b) { return at::allclose(a, b, 1e-5, 1e-5); };
    for (const DqGather gather : kGathers) {
        const BackwardOptions how{.gather = gather};
        const AttentionGradients result = plain_backward(dout, q, k, v, out, lse, {.scale = 1.0}, how);
        EXPECT_TRUE(near(result.dv, rows(4, 5, 2, 1)));
        EXPECT_TRUE(near(result.dq, rows(-2.25f * ln3, 2.25f, 1.5f * ln3, -1.5f)));
        EXPECT_TRUE(near(result.dk, rows(-2.25f, 0, 2.25f, 0)));
        const AttentionGradients with_lse = plain_backward(dout, q, k, v, out, lse, {.scale = 1.0}, how, dlse);
        EXPECT_TRUE(near(with_lse.dv, result.dv));
        EXPECT_TRUE(near(with_lse.dk, rows(0.75f, 0, 3.25f, 0)));
    }
}

/// What README.md says of 1024 queries and keys of one head, D = 64.
TEST(Backward, MovesWhatThePageSays) {
    const torch::Tensor x = at::empty({1, 1, 1024, 64});
    constexpr std::uint64_t kKiB = 1024;
    const GlobalBytes passes = plain_backward_bytes(x, x, x, {}, {.gather = DqGather::second_pass});
    EXPECT_EQ(passes.read, 18056 * kKiB);
    EXPECT_EQ(passes.written, 772 * kKiB);
    const GlobalBytes adding = plain_backward_bytes(x, x, x, {}, {.gather = DqGather::atomics});
    EXPECT_EQ(adding.read, 9344 * kKiB);
    EXPECT_EQ(adding.written, 4868 * kKiB);
}

/// Several tiles of keys and queries at each size that kernels are compiled for, with a group of heads: the standard
/// cases are short where D is large.
TEST(Backward, ManyTilesOfEverySizeMatchOracle) {
    for (const int64_t head_dim : {32, 64, 128, 250})
        for (const Mask mask : kMasks)
            check({.query_heads = 2,
                   .query_length = mask == Mask::causal_top_left ? 150 : 101,
                   .key_length = 135,
                   .head_dim = head_dim,
                   .options = {.scale = 0.13, .mask = mask},
                   .seed = 11},
                  /*with_dlse=*/true);
}

std::vector<AttentionCase> some_cases() {
    std::vector<AttentionCase> cases = every(9, standard_cases());
    for (AttentionCase& problem : every(9, causal_cases())) cases.push_back(std::move(problem));
    return cases;
}

TEST(Backward, RepeatsBitwise) {
    for (const AttentionCase& problem : some_cases()) {
        const Given g = given(problem);
        const AttentionGradients first = call(g, DqGather::second_pass), second = call(g, DqGather::second_pass);
        EXPECT_TRUE(same_bits(first.dq, second.dq)) << problem;
        EXPECT_TRUE(same_bits(first.dk, second.dk)) << problem;
        EXPECT_TRUE(same_bits(first.dv, second.dv)) << problem;
    }
}

TEST(Backward, RowsThatSeeNothingGetZero) {
    const Given g = given({.query_heads = 2,
                           .query_length = 90,
                           .key_length = 20,
                           .head_dim = 40,
                           .options = {.scale = {}, .mask = Mask::causal_bottom_right},
                           .seed = 7});
    for (const DqGather gather : kGathers) {
        const AttentionGradients result = call(g, gather);
        EXPECT_EQ(result.dq.narrow(2, 0, 70).abs().max().item<double>(), 0.0);
        EXPECT_GT(result.dq.narrow(2, 70, 20).abs().min().item<double>(), 0.0);
    }
}

/// dO_i and dLSE_i of one row alone: the gradients of all rows are the sum of those of each. (Whoever mixes rows up, in
/// D or LSE, shows.)
TEST(Backward, OneRowAloneReachesItsOwnDqOnly) {
    const AttentionCase problem{.query_length = 70, .key_length = 50, .head_dim = 32, .seed = 8};
    Given g = given(problem);
    g.dout = g.dout.clone();
    g.dout.narrow(2, 0, 41).zero_();
    g.dout.narrow(2, 42, 28).zero_();
    for (const DqGather gather : kGathers) {
        const AttentionGradients result = call(g, gather, /*with_dlse=*/false);
        EXPECT_EQ(result.dq.narrow(2, 0, 41).abs().max().item<double>(), 0.0);
        EXPECT_EQ(result.dq.narrow(2, 42, 28).abs().max().item<double>(), 0.0);
        EXPECT_GT(result.dq.narrow(2, 41, 1).abs().max().item<double>(), 0.0);
    }
}

/// The same bits; or, where the order of additions is nobody's, nearly the same numbers.
bool same_dq(const torch::Tensor& a, const torch::Tensor& b, DqGather gather) {
    return gather == DqGather::atomics ? at::allclose(a, b, /*rtol=*/1e-4, /*atol=*/1e-5) : same_bits(a, b);
}

/// What lies on the other side of the mask may hold anything: gradients keep their bits.
TEST(Backward, HiddenRowsReachNobody) {
    constexpr int64_t length = 100, at = 37;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (const int64_t head_dim : {32, 64, 128, 256}) {
        const Given g = given({.query_length = length,
                               .key_length = length,
                               .head_dim = head_dim,
                               .options = {.scale = {}, .mask = Mask::causal_top_left},
                               .seed = 9});
        for (const DqGather gather : kGathers) {
            const AttentionGradients clean = call(g, gather);
            Given keys = g;  // queries before `at` do not see key `at`
            keys.k = g.k.clone(), keys.v = g.v.clone();
            keys.k.select(2, at).fill_(nan);
            keys.v.select(2, at).fill_(nan);
            EXPECT_TRUE(same_dq(call(keys, gather).dq.narrow(2, 0, at), clean.dq.narrow(2, 0, at), gather));
            Given queries = g;  // keys after `at` are not seen by query `at`
            queries.q = g.q.clone(), queries.dout = g.dout.clone();
            queries.q.select(2, at).fill_(nan);
            queries.dout.select(2, at).fill_(nan);
            const AttentionGradients result = call(queries, gather);
            const int64_t rest = length - at - 1;
            EXPECT_TRUE(same_bits(result.dk.narrow(2, at + 1, rest), clean.dk.narrow(2, at + 1, rest))) << head_dim;
            EXPECT_TRUE(same_bits(result.dv.narrow(2, at + 1, rest), clean.dv.narrow(2, at + 1, rest))) << head_dim;
            EXPECT_TRUE(result.dv.narrow(2, 0, at + 1).isnan().all().item<bool>());
        }
    }
}

/// FlashAttention's test_flash_attn_bwd_overflow: scores so large that exp without LSE overflows.
TEST(Backward, LargeScoresDoNotOverflow) {
    for (const auto dtype : {torch::kFloat32, torch::kFloat16, torch::kBFloat16}) {
        AttentionCase problem{.query_heads = 2, .kv_heads = 2, .query_length = 64, .key_length = 64, .head_dim = 64};
        problem.dtype = dtype;
        Given g = given(problem);
        g.q = g.q * 3;
        g.k = g.k * 10;
        const AttentionResult exact = attention_oracle(g.q, g.k, g.v, g.options);
        g.out = exact.out.to(dtype);
        g.lse = exact.lse.to(torch::kFloat32);
        for (const DqGather gather : kGathers) {
            const Comparison verdict =
                compare_gradients(call(g, gather), g.q, g.k, g.v, {g.out, g.lse}, g.dout, g.options, g.dlse);
            EXPECT_TRUE(verdict.passed) << verdict.report;
        }
    }
}

TEST(Backward, MovesWhatTheFormulaSays) {
    if (not_run_without_counters()) return;
    for (const AttentionCase& problem : every(5, some_cases()))
        for (const DqGather gather : kGathers)
            for (const bool with_dlse : {false, true}) {
                const Given g = given(problem);
                const simt::LaunchLog log;
                call(g, gather, with_dlse);
                const auto counted = log.total();
                const GlobalBytes stated =
                    plain_backward_bytes(g.q, g.k, g.v, g.options, {.gather = gather}, with_dlse);
                EXPECT_EQ(counted.global_bytes_read(), stated.read) << problem << ", gather " << int(gather);
                EXPECT_EQ(counted.global_bytes_written(), stated.written) << problem << ", gather " << int(gather);
            }
}

// ---- What is refused -----------------------------------------------------------------------------------------------

TEST(Backward, RefusesBadInput) {
    for (const BadInput& bad : bad_inputs(test_device())) {
        const simt::LaunchLog log;
        EXPECT_TRUE(throws_mentioning([&] { plain_backward(bad.q, bad.q, bad.k, bad.v, bad.q, bad.q, bad.options); },
                                      bad.mentions))
            << bad.name;
        EXPECT_TRUE(log.records().empty()) << bad.name;
    }
}

TEST(Backward, RefusesWhatDoesNotBelongToQ) {
    const Given good = given({.query_length = 5, .key_length = 7, .head_dim = 16});
    const auto refuses = [&](const std::string& name, const std::function<void(Given&)>& change) {
        Given bad = good;
        change(bad);
        const simt::LaunchLog log;
        EXPECT_TRUE(throws_mentioning([&] { call(bad, DqGather::second_pass); }, {name + ":"})) << name;
        EXPECT_TRUE(log.records().empty());
    };
    refuses("dout", [](Given& g) { g.dout = torch::Tensor(); });
    refuses("dout", [](Given& g) { g.dout = g.dout.narrow(2, 0, 4); });
    refuses("dout", [](Given& g) { g.dout = g.dout.to(torch::kFloat16); });
    refuses("dout", [](Given& g) { g.dout = g.dout.transpose(2, 3).contiguous().transpose(2, 3); });
    refuses("out", [](Given& g) { g.out = g.out.narrow(3, 0, 8); });
    refuses("out", [](Given& g) { g.out = g.out.to(torch::kBFloat16); });
    refuses("lse", [](Given& g) { g.lse = g.lse.unsqueeze(-1); });
    refuses("lse", [](Given& g) { g.lse = g.lse.narrow(2, 0, 4); });
    refuses("lse", [](Given& g) { g.lse = g.lse.to(torch::kFloat16); });
    refuses("dlse", [](Given& g) { g.dlse = g.dlse.narrow(2, 0, 4); });
    refuses("dlse", [](Given& g) { g.dlse = g.dlse.to(torch::kFloat64); });
    EXPECT_TRUE(throws_mentioning([&] { call(good, static_cast<DqGather>(7)); }, {"gather:", "7"}));
}

TEST(Backward, LaunchesWhatItsNameSays) {
    if (not_run_on_gpu("it asks the CPU machine what was launched")) return;
    const auto kernels = [](torch::ScalarType dtype, DqGather gather) {
        AttentionCase problem{.query_length = 5, .key_length = 7, .head_dim = 16};
        problem.dtype = dtype;
        const Given g = given(problem);
        const simt::LaunchLog log;
        call(g, gather);
        std::vector<std::string> names;
        for (const simt::LaunchRecord& record : log.records()) names.push_back(record.kernel);
        return names;
    };
    using Names = std::vector<std::string>;
    const Names two_passes{"backward_delta_kernel", "backward_dkdv_kernel", "backward_dq_kernel"};
    EXPECT_EQ(kernels(torch::kFloat32, DqGather::second_pass), two_passes);
    EXPECT_EQ(kernels(torch::kFloat16, DqGather::second_pass), two_passes);
    EXPECT_EQ(kernels(torch::kFloat32, DqGather::atomics), (Names{"backward_delta_kernel", "backward_dkdv_kernel"}));
    EXPECT_EQ(kernels(torch::kBFloat16, DqGather::atomics),
              (Names{"backward_delta_kernel", "backward_dkdv_kernel", "backward_round_kernel"}));
}

}  // namespace
}  // namespace ladder
