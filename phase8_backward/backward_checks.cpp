#include "phase8_backward/backward_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "common/reference/checks.h"
#include "common/reference/gradient_comparison.h"
#include "common/reference/oracle.h"
#include "common/reference/test_device.h"
#include "common/simt/report/launch_log.h"

namespace ladder::backward_checks {

using namespace reference;

namespace {

using Given = BackwardInputs;

Given given(const AttentionCase& problem) { return make_backward_inputs(problem, test_device()); }

/// The same bits; or, where the order of additions is nobody's, nearly the same numbers.
bool same_dq(const torch::Tensor& a, const torch::Tensor& b, DqGather gather) {
    if (gather == DqGather::second_pass) return same_bits(a, b);
    return a.scalar_type() == torch::kFloat32 ? at::allclose(a, b, /*rtol=*/1e-4, /*atol=*/1e-5)
                                              : at::allclose(a, b, /*rtol=*/1e-2, /*atol=*/1e-3);
}

}  // namespace

AttentionGradients call(const Entry& entry, const Given& g, DqGather gather, bool with_dlse) {
    return entry.call(g.dout, g.q, g.k, g.v, g.out, g.lse, g.options, {.gather = gather},
                      with_dlse ? std::optional(g.dlse) : std::nullopt);
}

namespace {

void gradients_match_oracle(const Entry& entry, const Given& g, bool with_dlse) {
    const ExpectedGradients expected(g.q, g.k, g.v, {g.out, g.lse}, g.dout, g.options,
                                     with_dlse ? std::optional(g.dlse) : std::nullopt);
    for (const DqGather gather : kGathers) {
        const MemoryWatch watch({{"q", g.q}, {"k", g.k}, {"v", g.v}, {"dout", g.dout}, {"out", g.out}, {"lse", g.lse}});
        const Comparison verdict = expected.compare(call(entry, g, gather, with_dlse));
        EXPECT_TRUE(verdict.passed) << (gather == DqGather::atomics ? "atomics" : "second pass") << "\n"
                                    << verdict.report;
        EXPECT_TRUE(watch.written().empty()) << watch.written().front() << ": the entry wrote to its input";
    }
}

}  // namespace

void matches_oracle(const Entry& entry, const AttentionCase& problem, bool with_dlse) {
    SCOPED_TRACE(describe(problem));
    gradients_match_oracle(entry, given(problem), with_dlse);
}

void gradients_with_strides_of_their_own_match_oracle(const Entry& entry) {
    constexpr int64_t batch = 2, heads = 2, length = 150;
    for (const auto dtype : entry.dtypes)
        for (const int64_t head_dim : {int64_t{64}, std::min<int64_t>(128, entry.head_dims.back())}) {
            Given g = given({.batch = batch,
                             .query_heads = heads,
                             .kv_heads = heads,
                             .query_length = length,
                             .key_length = length,
                             .head_dim = head_dim,
                             .dtype = dtype,
                             .options = {.mask = Mask::causal_bottom_right}});
            const torch::Tensor memory = at::full({length, 2 * batch, heads, head_dim},
                                                  std::numeric_limits<float>::quiet_NaN(), g.dout.options());
            const torch::Tensor dout = memory.slice(1, 0, 2 * batch, 2).permute({1, 2, 0, 3});
            g.dout = dout.copy_(g.dout);
            SCOPED_TRACE("head dimension " + std::to_string(head_dim));
            gradients_match_oracle(entry, g, /*with_dlse=*/false);
        }
}

void many_tiles_of_every_size_match_oracle(const Entry& entry, int64_t query_length, int64_t key_length) {
    const char* const all = std::getenv("LADDER_TEST_ALL");  // without --all it is there, and empty
    const bool every_mask = all && *all;
    const std::size_t masks = std::size(kMasks);
    for (std::size_t d = 0; d < entry.head_dims.size(); ++d)
        for (std::size_t m = 0; m < masks; ++m) {
            if (!every_mask && m != (d + d / masks + 1) % masks) continue;
            AttentionCase problem{.query_heads = 2,
                                  .query_length = query_length,
                                  .key_length = key_length,
                                  .head_dim = entry.head_dims[d],
                                  .options = {.scale = 0.13, .mask = kMasks[m]},
                                  .seed = 11};
            problem.dtype = entry.dtypes[(d + m) % entry.dtypes.size()];
            matches_oracle(entry, problem, /*with_dlse=*/true);
        }
}

std::vector<AttentionCase> some_cases() {
    std::vector<AttentionCase> cases = every(9, standard_cases());
    for (AttentionCase& problem : every(9, causal_cases())) cases.push_back(std::move(problem));
    return cases;
}

void repeats_bitwise(const Entry& entry, const std::vector<AttentionCase>& cases) {
    for (const AttentionCase& problem : cases) {
        const Given g = given(problem);
        const AttentionGradients first = call(entry, g, DqGather::second_pass),
                                 second = call(entry, g, DqGather::second_pass);
        EXPECT_TRUE(same_bits(first.dq, second.dq)) << problem;
        EXPECT_TRUE(same_bits(first.dk, second.dk)) << problem;
        EXPECT_TRUE(same_bits(first.dv, second.dv)) << problem;
    }
}

void rows_that_see_nothing_get_zero(const Entry& entry) {
    for (const auto dtype : entry.dtypes) {
        const Given g = given({.query_heads = 2,
                               .query_length = 90,
                               .key_length = 20,
                               .head_dim = 40,
                               .dtype = dtype,
                               .options = {.scale = {}, .mask = Mask::causal_bottom_right},
                               .seed = 7});
        for (const DqGather gather : kGathers) {
            const AttentionGradients result = call(entry, g, gather);
            EXPECT_EQ(result.dq.narrow(2, 0, 70).abs().max().item<double>(), 0.0);
            EXPECT_GT(result.dq.narrow(2, 70, 20).abs().min().item<double>(), 0.0);
        }
    }
}

void one_row_alone_reaches_its_own_dq_only(const Entry& entry) {
    for (const auto dtype : entry.dtypes) {
        Given g = given({.query_length = 70, .key_length = 50, .head_dim = 32, .dtype = dtype, .seed = 8});
        g.dout = g.dout.clone();
        g.dout.narrow(2, 0, 41).zero_();
        g.dout.narrow(2, 42, 28).zero_();
        for (const DqGather gather : kGathers) {
            const AttentionGradients result = call(entry, g, gather, /*with_dlse=*/false);
            EXPECT_EQ(result.dq.narrow(2, 0, 41).abs().max().item<double>(), 0.0);
            EXPECT_EQ(result.dq.narrow(2, 42, 28).abs().max().item<double>(), 0.0);
            EXPECT_GT(result.dq.narrow(2, 41, 1).abs().max().item<double>(), 0.0);
        }
    }
}

void hidden_rows_reach_nobody(const Entry& entry) {
    constexpr int64_t length = 100, at = 37;
    const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    std::size_t n = 0;
    for (const int64_t head_dim : entry.head_dims) {
        const Given g = given({.query_length = length,
                               .key_length = length,
                               .head_dim = head_dim,
                               .dtype = entry.dtypes[n++ % entry.dtypes.size()],
                               .options = {.scale = {}, .mask = Mask::causal_top_left},
                               .seed = 9});
        for (const DqGather gather : kGathers) {
            SCOPED_TRACE("head dimension " + std::to_string(head_dim) + ", gather " + std::to_string(int(gather)));
            const AttentionGradients clean = call(entry, g, gather);
            Given keys = g;  // queries before `at` do not see key `at`
            keys.k = g.k.clone(), keys.v = g.v.clone();
            keys.k.select(2, at).fill_(nan);
            keys.v.select(2, at).fill_(nan);
            const torch::Tensor dq = call(entry, keys, gather).dq;
            EXPECT_TRUE(same_dq(dq.narrow(2, 0, at), clean.dq.narrow(2, 0, at), gather));
            EXPECT_TRUE(dq.narrow(2, at, length - at).isnan().all().item<bool>());
            Given queries = g;  // keys after `at` are not seen by query `at`
            queries.q = g.q.clone(), queries.dout = g.dout.clone();
            queries.q.select(2, at).fill_(nan);
            queries.dout.select(2, at).fill_(nan);
            const AttentionGradients result = call(entry, queries, gather);
            const int64_t rest = length - at - 1;
            EXPECT_TRUE(same_bits(result.dk.narrow(2, at + 1, rest), clean.dk.narrow(2, at + 1, rest)));
            EXPECT_TRUE(same_bits(result.dv.narrow(2, at + 1, rest), clean.dv.narrow(2, at + 1, rest)));
            EXPECT_TRUE(result.dk.narrow(2, 0, at + 1).isnan().all().item<bool>());
            EXPECT_TRUE(result.dv.narrow(2, 0, at + 1).isnan().all().item<bool>());
            Given gradients = g;  // what is infinite is infinite for those who see it, and no NaN
            gradients.dout = g.dout.clone();
            gradients.dout.select(2, at).fill_(infinity);
            const torch::Tensor dv = call(entry, gradients, gather).dv;
            EXPECT_TRUE(same_bits(dv.narrow(2, at + 1, rest), clean.dv.narrow(2, at + 1, rest)));
            EXPECT_TRUE((dv.narrow(2, 0, at + 1) == infinity).all().item<bool>());
        }
    }
}

void keys_of_no_weight_reach_only_who_sees_them(const Entry& entry) {
    constexpr int64_t length = 100, at = 37;
    std::size_t n = 0;
    for (const int64_t head_dim : entry.head_dims)
        for (const Mask mask : {Mask::none, Mask::causal_top_left}) {
            SCOPED_TRACE("head dimension " + std::to_string(head_dim) + ", mask " + std::to_string(int(mask)));
            Given g = given({.query_heads = 2,
                             .kv_heads = 1,
                             .query_length = length,
                             .key_length = length,
                             .head_dim = head_dim,
                             .dtype = entry.dtypes[n++ % entry.dtypes.size()],
                             .options = {.mask = mask}});
            g.q = g.q.abs(), g.k = g.k.clone();
            g.k.select(2, at).fill_(-300);
            const AttentionResult exact = attention_oracle(g.q, g.k, g.v, g.options);
            g.out = exact.out.to(g.q.scalar_type()), g.lse = exact.lse.to(torch::kFloat32);
            for (const DqGather gather : kGathers) {
                g.k.select(2, at).fill_(-300);
                const AttentionGradients far_away = call(entry, g, gather);
                g.k.select(2, at).fill_(-std::numeric_limits<float>::infinity());
                const AttentionGradients result = call(entry, g, gather);
                const int64_t unseeing = mask == Mask::none ? 0 : at;
                EXPECT_TRUE(result.dq.narrow(2, 0, unseeing).isfinite().all().item<bool>());
                EXPECT_TRUE(result.dq.narrow(2, unseeing, length - unseeing).isnan().all().item<bool>());
                EXPECT_TRUE(same_bits(result.dk, far_away.dk));
                EXPECT_TRUE(same_bits(result.dv, far_away.dv));
            }
        }
}

void large_scores_do_not_overflow(const Entry& entry) {
    for (const auto dtype : entry.dtypes) {
        AttentionCase problem{.query_heads = 2, .kv_heads = 2, .query_length = 64, .key_length = 64, .head_dim = 64};
        problem.dtype = dtype;
        Given g = given(problem);
        g.q = g.q * 3;
        g.k = g.k * 10;
        const AttentionResult exact = attention_oracle(g.q, g.k, g.v, g.options);
        g.out = exact.out.to(dtype);
        g.lse = exact.lse.to(torch::kFloat32);
        const ExpectedGradients expected(g.q, g.k, g.v, {g.out, g.lse}, g.dout, g.options, g.dlse);
        for (const DqGather gather : kGathers) {
            const Comparison verdict = expected.compare(call(entry, g, gather));
            EXPECT_TRUE(verdict.passed) << verdict.report;
        }
    }
}

void moves_what_the_formula_says(const Entry& entry, const std::vector<AttentionCase>& cases) {
    if (not_run_without_counters()) return;
    for (const AttentionCase& problem : cases) {
        const Given g = given(problem);
        for (const DqGather gather : kGathers)
            for (const bool with_dlse : {false, true}) {
                const simt::LaunchLog log;
                call(entry, g, gather, with_dlse);
                const auto counted = log.total();
                const GlobalBytes stated = entry.bytes(g.q, g.k, g.v, g.options, {.gather = gather}, with_dlse);
                EXPECT_EQ(counted.global_bytes_read(), stated.read) << problem << ", gather " << int(gather);
                EXPECT_EQ(counted.global_bytes_written(), stated.written) << problem << ", gather " << int(gather);
            }
    }
}

void refuses_bad_input(const Entry& entry) {
    for (const BadInput& bad : bad_inputs(test_device())) {
        const simt::LaunchLog log;
        EXPECT_TRUE(throws_mentioning(
            [&] { entry.call(bad.q, bad.q, bad.k, bad.v, bad.q, bad.q, bad.options, {}, std::nullopt); }, bad.mentions))
            << bad.name;
        EXPECT_TRUE(log.records().empty()) << bad.name;
    }
    const torch::ScalarType dtype = entry.dtypes.front();
    const torch::ScalarType other = dtype == torch::kFloat16 ? torch::kBFloat16 : torch::kFloat16;
    const Given good = given({.query_length = 5, .key_length = 7, .head_dim = 16, .dtype = dtype});
    const auto refuses = [&](const std::string& name, const std::function<void(Given&)>& change) {
        Given bad = good;
        change(bad);
        const simt::LaunchLog log;
        EXPECT_TRUE(throws_mentioning([&] { call(entry, bad, DqGather::second_pass); }, {name + ":"})) << name;
        EXPECT_TRUE(log.records().empty());
    };
    refuses("dout", [](Given& g) { g.dout = torch::Tensor(); });
    refuses("dout", [](Given& g) { g.dout = g.dout.narrow(2, 0, 4); });
    refuses("dout", [&](Given& g) { g.dout = g.dout.to(other); });
    refuses("dout", [](Given& g) { g.dout = g.dout.transpose(2, 3).contiguous().transpose(2, 3); });
    refuses("out", [](Given& g) { g.out = g.out.narrow(3, 0, 8); });
    refuses("out", [&](Given& g) { g.out = g.out.to(other); });
    refuses("lse", [](Given& g) { g.lse = g.lse.unsqueeze(-1); });
    refuses("lse", [](Given& g) { g.lse = g.lse.narrow(2, 0, 4); });
    refuses("lse", [](Given& g) { g.lse = g.lse.to(torch::kFloat16); });
    refuses("dlse", [](Given& g) { g.dlse = g.dlse.narrow(2, 0, 4); });
    refuses("dlse", [](Given& g) { g.dlse = g.dlse.to(torch::kFloat64); });
    EXPECT_TRUE(throws_mentioning([&] { call(entry, good, static_cast<DqGather>(7)); }, {"gather:", "7"}));
}

}  // namespace ladder::backward_checks
