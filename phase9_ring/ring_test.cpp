#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>

#include "common/distributed/local_ranks.h"
#include "common/reference/cases.h"
#include "common/reference/checks.h"
#include "common/reference/gradient_cases.h"
#include "common/reference/gradient_comparison.h"
#include "common/reference/test_device.h"
#include "phase9_ring/alternatives.h"
#include "phase9_ring/ring.h"
#include "phase9_ring/sent_bytes.h"

namespace ladder {
namespace {

using namespace reference;
using distributed::Group, distributed::on_local_ranks;

constexpr Parts kParts[] = {Parts::contiguous, Parts::zigzag};

/// Several ranks need Gloo, which carries CPU tensors; one needs nothing.
bool not_run_here(int ranks) {
    if (ranks == 1) return false;
    return not_run_on_gpu("`./ladder ring` checks several ranks there, a GPU each") ||
           not_run_for_want_of(distributed::missing_for(distributed::EngineKind::gloo));
}

/// What each rank has of a tensor, rejoined once all have it.
class Whole {
  public:
    Whole(Parts parts, int ranks) : parts_(parts), held_(ranks) {}

    void hold(int rank, const torch::Tensor& part) {
        const std::scoped_lock lock(mutex_);
        held_[rank] = part.detach();
    }

    torch::Tensor rejoined() const { return rejoin_sequence(held_, 2, parts_); }

  private:
    Parts parts_;
    std::mutex mutex_;
    std::vector<torch::Tensor> held_;
};

using Shared = decltype(ring_attention);

AttentionCase some_case(Mask mask = Mask::causal_bottom_right) {
    return {.query_heads = 4,
            .kv_heads = 2,
            .query_length = 22,
            .key_length = 37,
            .head_dim = 16,
            .options = {.mask = mask}};
}

/// What ranks made of a case, and what that should be.
struct Trial {
    Trial(AttentionCase problem, Parts parts, int ranks) : problem(std::move(problem)), parts(parts), ranks(ranks) {}

    AttentionCase problem;
    Parts parts;
    int ranks;
    Whole out{parts, ranks}, lse{parts, ranks}, dq{parts, ranks}, dk{parts, ranks}, dv{parts, ranks};

    /// On one rank: both passes, or the first.
    void run(const Group& group, Shared entry, bool both) {
        const AttentionInputs x = make_inputs(problem, test_device());
        const torch::Tensor q = part_of_case(group, x.q, problem.layouts.q).requires_grad_(both),
                            k = part_of_case(group, x.k, problem.layouts.k).requires_grad_(both),
                            v = part_of_case(group, x.v, problem.layouts.v).requires_grad_(both);
        const AttentionResult result = entry(q, k, v, group, {.attention = problem.options, .parts = parts});
        out.hold(group.rank(), result.out);
        lse.hold(group.rank(), result.lse);
        if (!both) return;
        const LossGradients loss = make_loss_gradients(problem, test_device());
        const auto d = torch::autograd::grad({result.out, result.lse}, {q, k, v},
                                             {cut_sequence(loss.dout, 2, parts, group.rank(), ranks),
                                              cut_sequence(loss.dlse, 2, parts, group.rank(), ranks)});
        dq.hold(group.rank(), d[0]);
        dk.hold(group.rank(), d[1]);
        dv.hold(group.rank(), d[2]);
    }

    void judge(bool both) const {
        SCOPED_TRACE(std::to_string(ranks) + (parts == Parts::zigzag ? " zigzag" : " contiguous") + " ranks, " +
                     describe(problem));
        const AttentionInputs x = make_inputs(problem, test_device());
        const AttentionResult given{out.rejoined(), lse.rejoined()};
        const Comparison forward = compare_attention(given, x.q, x.k, x.v, problem.options);
        EXPECT_TRUE(forward.passed) << forward.report;
        if (!both) return;
        const LossGradients loss = make_loss_gradients(problem, test_device());
        const Comparison backward = compare_gradients({.dq = dq.rejoined(), .dk = dk.rejoined(), .dv = dv.rejoined()},
                                                      x.q, x.k, x.v, given, loss.dout, problem.options, loss.dlse);
        EXPECT_TRUE(backward.passed) << backward.report;
    }

  private:
    /// In the layout of the case, from which cut_sequence() has taken the part.
    torch::Tensor part_of_case(const Group& group, const torch::Tensor& whole, Layout layout) const {
        const torch::Tensor part = cut_sequence(whole, 2, parts, group.rank(), ranks);
        const bool shares_memory = layout == Layout::expanded_heads || layout == Layout::expanded_batch;
        return part.size(2) == 0 || shares_memory ? part : with_layout(part, layout);
    }
};

/// One group of ranks goes through all of these.
void try_all(Shared entry, int ranks, const std::vector<AttentionCase>& cases, bool both) {
    std::deque<Trial> trials;
    for (const AttentionCase& problem : cases) trials.emplace_back(problem, kParts[(trials.size() + ranks) % 2], ranks);
    on_local_ranks(ranks, [&](const Group& group) {
        for (Trial& trial : trials) trial.run(group, entry, both);
    });
    for (const Trial& trial : trials) trial.judge(both);
}

std::vector<AttentionCase> some_cases() {
    AttentionCase few = some_case();  // fewer positions than ranks, and queries that see no key
    few.query_length = 3;
    few.key_length = 2;
    AttentionCase half = some_case(Mask::none);
    half.dtype = torch::kBFloat16;
    return {some_case(Mask::none), some_case(), some_case(Mask::causal_top_left), few, half};
}

class RingOfRanks : public ::testing::TestWithParam<int> {
  public:
    /// Tiles are as dear with few rows as with many, and every rank has one for each rank's keys.
    static constexpr int kMany = 8;
};

TEST_P(RingOfRanks, IsAttentionOverTheWhole) {
    const int ranks = GetParam();
    if (not_run_here(ranks)) return;
    try_all(ring_attention, ranks, every(ranks < kMany ? 11 : 31, standard_cases()), false);
    try_all(ring_attention, ranks, every(ranks < kMany ? 5 : 17, causal_cases()), false);
}

TEST_P(RingOfRanks, HasTheGradientsOfTheWhole) {
    const int ranks = GetParam();
    if (not_run_here(ranks)) return;
    try_all(ring_attention, ranks, some_cases(), true);
    if (ranks == kMany) return;
    try_all(ring_attention, ranks, every(71, standard_cases()), true);
    try_all(ring_attention, ranks, every(29, causal_cases()), true);
}

INSTANTIATE_TEST_SUITE_P(Number, RingOfRanks, ::testing::Values(1, 2, 3, 4, 8), ::testing::PrintToStringParamName());

TEST(GatheredAttention, IsTheSame) {
    if (not_run_here(2)) return;
    for (const int ranks : {1, 3}) try_all(gathered_attention, ranks, some_cases(), true);
}

TEST(UlyssesAttention, IsTheSame) {
    if (not_run_here(2)) return;
    for (const int ranks : {1, 2}) try_all(ulysses_attention, ranks, some_cases(), true);
}

TEST(UlyssesAttention, NeedsAHeadForEachRank) {
    if (not_run_here(2)) return;
    const AttentionInputs x = make_inputs(some_case(), test_device());
    EXPECT_TRUE(throws_mentioning(
        [&] {
            on_local_ranks(3, [&](const Group& group) {
                const auto part = [&](const torch::Tensor& t) {
                    return cut_sequence(t, 2, Parts::zigzag, group.rank(), 3);
                };
                ulysses_attention(part(x.q), part(x.k), part(x.v), group, {.parts = Parts::zigzag});
            });
        },
        {"ulysses_attention: q has 4 heads", "3 ranks", "ring_attention"}));
}

/// Both passes of some_case() on each rank; `look` gets what a rank has.
void on_each_rank(
    int ranks, const RingOptions& options,
    const std::function<void(const Group&, const AttentionResult&, const std::vector<torch::Tensor>&)>& look,
    Shared entry = ring_attention) {
    const AttentionInputs x = make_inputs(some_case(), test_device());
    on_local_ranks(ranks, [&](const Group& group) {
        const auto leaf = [&](const torch::Tensor& t) {
            return cut_sequence(t, 2, options.parts, group.rank(), ranks).requires_grad_();
        };
        const std::vector<torch::Tensor> leaves{leaf(x.q), leaf(x.k), leaf(x.v)};
        const AttentionResult result = entry(leaves[0], leaves[1], leaves[2], group, options);
        look(group, {result.out.detach(), result.lse.detach()},
             torch::autograd::grad({result.out}, leaves, {at::ones_like(result.out)}));
    });
}

TEST(RingAttention, IsTheSameWhetherTensorsTravelWhileRanksComputeOrBefore) {
    if (not_run_here(2)) return;
    constexpr int kRanks = 4;
    std::vector<std::vector<torch::Tensor>> first(kRanks);
    for (const bool overlap : {true, false, true})
        on_each_rank(kRanks, {.attention = some_case().options, .parts = Parts::zigzag, .overlap = overlap},
                     [&](const Group& group, const AttentionResult& result, const std::vector<torch::Tensor>& d) {
                         std::vector<torch::Tensor> all = d;
                         all.push_back(result.out);
                         all.push_back(result.lse);
                         if (first[group.rank()].empty()) first[group.rank()] = all;
                         for (std::size_t i = 0; i < all.size(); ++i)
                             EXPECT_TRUE(same_bits(all[i], first[group.rank()][i])) << "tensor " << i;
                     });
}

/// What all ranks send in each pass.
SentBytes sent(Shared entry, const AttentionCase& problem, Parts parts, int ranks) {
    std::atomic<std::int64_t> forward = 0, both = 0;
    const AttentionInputs x = make_inputs(problem, test_device());
    on_local_ranks(ranks, [&](const Group& group) {
        const auto leaf = [&](const torch::Tensor& t) {
            return cut_sequence(t, 2, parts, group.rank(), ranks).requires_grad_();
        };
        const torch::Tensor q = leaf(x.q), k = leaf(x.k), v = leaf(x.v);
        const AttentionResult result = entry(q, k, v, group, {.parts = parts});
        forward += group.bytes_sent();
        torch::autograd::grad({result.out}, {q, k, v}, {at::ones_like(result.out)});
        both += group.bytes_sent();
    });
    return {.forward = forward, .backward = both - forward};
}

TEST(SentBytes, AreWhatTheFormulasSay) {
    if (not_run_here(2)) return;
    AttentionCase problem = some_case();
    problem.query_length = 24;
    problem.key_length = 40;
    problem.dtype = torch::kBFloat16;
    const WholeSizes sizes{.query_heads = problem.query_heads,
                           .kv_heads = problem.kv_heads,
                           .query_length = problem.query_length,
                           .key_length = problem.key_length,
                           .head_dim = problem.head_dim,
                           .element_bytes = 2};
    const auto check = [&](Shared entry, SentBytes (*formula)(const WholeSizes&, int),
                           std::initializer_list<int> ranks) {
        for (const int r : ranks)
            for (const Parts parts : kParts) {
                const SentBytes got = sent(entry, problem, parts, r), said = formula(sizes, r);
                EXPECT_EQ(got.forward, said.forward) << r << " ranks";
                EXPECT_EQ(got.backward, said.backward) << r << " ranks";
            }
    };
    check(ring_attention, ring_bytes, {1, 2, 4});
    check(gathered_attention, gathered_bytes, {1, 2, 4});
    check(ulysses_attention, ulysses_bytes, {1, 2});
}

TEST(RingAttention, HasNoSecondDerivative) {
    if (not_run_here(2)) return;
    EXPECT_TRUE(throws_mentioning(
        [&] {
            on_local_ranks(2, [&](const Group& group) {
                const torch::Tensor q = at::randn({1, 1, 4, 8}, test_device()).requires_grad_();
                const AttentionResult result = ring_attention(q, q.detach(), q.detach(), group);
                torch::autograd::grad({result.out}, {q}, {at::ones_like(q)}, true, true);
            });
        },
        {"no second derivative"}));
}

}  // namespace
}  // namespace ladder
