// What wrong host code of the ring is put through: small problems over a few ranks, on threads of one process.

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <atomic>
#include <functional>
#include <string>

#include "common/distributed/local_ranks.h"
#include "common/reference/gradient_cases.h"
#include "common/reference/gradient_comparison.h"
#include "phase9_ring/alternatives.h"
#include "phase9_ring/ring.h"
#include "phase9_ring/sent_bytes.h"
#include "tests/mutants/trials.h"

namespace ladder::mutants {
namespace {

using distributed::Group, distributed::on_local_ranks, distributed::Patience;
using reference::AttentionCase, reference::AttentionInputs;
using ::testing::AssertionFailure, ::testing::AssertionResult, ::testing::AssertionSuccess;
using Entry = decltype(ring_attention);

constexpr Patience kPatience(5'000);

/// Both passes over `ranks` ranks, against the oracle over the whole. The entry must leave its inputs alone.
AssertionResult is_attention(Entry entry, const AttentionCase& problem, Parts parts, int ranks) {
    const AttentionInputs x = reference::make_inputs(problem, torch::kCPU);
    const reference::LossGradients loss = reference::make_loss_gradients(problem, torch::kCPU);
    std::vector<torch::Tensor> out(ranks), lse(ranks), dq(ranks), dk(ranks), dv(ranks);
    std::atomic<bool> inputs_changed = false;
    on_local_ranks(
        ranks,
        [&](const Group& group) {
            const int r = group.rank();
            const auto own = [&](const torch::Tensor& t) { return cut_sequence(t, 2, parts, r, ranks); };
            const torch::Tensor q = own(x.q).requires_grad_(), k = own(x.k).requires_grad_(),
                                v = own(x.v).requires_grad_();
            const AttentionResult result = entry(q, k, v, group, {.attention = problem.options, .parts = parts});
            const auto d = torch::autograd::grad({result.out, result.lse}, {q, k, v}, {own(loss.dout), own(loss.dlse)});
            out[r] = result.out.detach(), lse[r] = result.lse.detach();
            dq[r] = d[0], dk[r] = d[1], dv[r] = d[2];
            if (!at::equal(k.detach(), own(x.k)) || !at::equal(v.detach(), own(x.v))) inputs_changed = true;
        },
        kPatience);
    const auto whole = [&](const std::vector<torch::Tensor>& held) { return rejoin_sequence(held, 2, parts); };
    const AttentionResult given{whole(out), whole(lse)};
    const auto forward = reference::compare_attention(given, x.q, x.k, x.v, problem.options);
    if (!forward.passed) return AssertionFailure() << forward.report;
    const auto backward = reference::compare_gradients({.dq = whole(dq), .dk = whole(dk), .dv = whole(dv)}, x.q, x.k,
                                                       x.v, given, loss.dout, problem.options, loss.dlse);
    if (!backward.passed) return AssertionFailure() << backward.report;
    if (inputs_changed) return AssertionFailure() << "K or V of a rank was written";
    return AssertionSuccess();
}

/// All ranks together send what the formula says.
AssertionResult sends(Entry entry, SentBytes (*formula)(const WholeSizes&, int)) {
    constexpr int kRanks = 3;
    std::atomic<std::int64_t> forward = 0, both = 0;
    on_local_ranks(
        kRanks,
        [&](const Group& group) {
            const auto part = [] { return at::ones({1, 3, 2, 8}).requires_grad_(); };
            const torch::Tensor q = part(), k = part(), v = part();
            const AttentionResult result = entry(q, k, v, group, {});
            forward += group.bytes_sent();
            torch::autograd::grad({result.out}, {q, k, v}, {at::ones_like(result.out)});
            both += group.bytes_sent();
        },
        kPatience);
    const SentBytes said =
        formula({.query_heads = 3, .kv_heads = 3, .query_length = 6, .key_length = 6, .head_dim = 8}, kRanks);
    if (forward == said.forward && both - forward == said.backward) return AssertionSuccess();
    return AssertionFailure() << "sent " << forward << " and " << both - forward << " bytes, by formula "
                              << said.forward << " and " << said.backward;
}

/// Rank 1 of 3 comes with something else: all end with an error that says so.
AssertionResult refuses(const std::function<torch::Tensor(const torch::Tensor&)>& change,
                        const std::vector<std::string>& mentions, bool keys_too = true) {
    std::atomic<int> told = 0;
    on_local_ranks(
        3,
        [&](const Group& group) {
            // Of as many bytes as bfloat16.
            const torch::Tensor x = at::ones({1, 1, 4, 8}, torch::kFloat16), mine = group.rank() == 1 ? change(x) : x;
            const auto refused = reference::throws_mentioning(
                [&] { ring_attention(mine, keys_too ? mine : x, keys_too ? mine : x, group); }, mentions);
            if (refused || group.rank() == 1) ++told;
        },
        kPatience);
    if (told == 3) return AssertionSuccess();
    return AssertionFailure() << "only " << told << " of 3 ranks heard of it";
}

}  // namespace

std::vector<Trial> trials(torch::ScalarType) {
    std::vector<Trial> trials;
    AttentionCase problem{.query_heads = 2, .kv_heads = 1, .head_dim = 8};
    const auto add = [&](const std::string& name, Entry entry, int ranks, std::int64_t queries, std::int64_t keys,
                         AttentionOptions options) {
        problem.query_length = queries;
        problem.key_length = keys;
        problem.options = options;
        for (const Parts parts : {Parts::contiguous, Parts::zigzag})
            trials.push_back(trial(name + (parts == Parts::zigzag ? "_zigzag" : ""),
                                   [=] { return is_attention(entry, problem, parts, ranks); }));
    };
    const AttentionOptions bottom_right{.scale = 0.7, .mask = Mask::causal_bottom_right},
        top_left{.scale = 0.7, .mask = Mask::causal_top_left};
    // Where lengths divide, all messages are equally long, whoever sends them: Gloo ends a process that gets another
    // one.
    add("ring_of_two", ring_attention, 2, 12, 12, {});
    add("causal_ring", ring_attention, 3, 18, 18, bottom_right);
    add("causal_ring_longer_keys", ring_attention, 3, 12, 18, bottom_right);
    add("causal_ring_ragged", ring_attention, 3, 13, 19, bottom_right);
    add("top_left_ring", ring_attention, 3, 13, 19, top_left);
    add("top_left_ring_shorter_keys", ring_attention, 3, 19, 5, top_left);
    add("causal_ring_shorter_keys", ring_attention, 3, 19, 5, bottom_right);
    problem.kv_heads = 2;
    add("gathered", gathered_attention, 3, 19, 13, bottom_right);
    add("ulysses", ulysses_attention, 2, 19, 13, bottom_right);
    trials.push_back(trial("bytes_of_the_ring", [] { return sends(ring_attention, ring_bytes); }));
    trials.push_back(trial("bytes_of_the_gathered", [] { return sends(gathered_attention, gathered_bytes); }));
    trials.push_back(trial("bytes_of_ulysses", [] { return sends(ulysses_attention, ulysses_bytes); }));
    trials.push_back(trial("another_dtype", [] {
        return refuses([](const torch::Tensor& x) { return x.to(torch::kBFloat16); }, {"rank 1 came with dtype"});
    }));
    trials.push_back(trial("another_length", [] {
        return refuses([](const torch::Tensor& x) { return x.narrow(2, 0, 1); }, {"hold 4, 1 and 4"}, false);
    }));
    trials.push_back(trial("another_head_count", [] {
        return refuses([](const torch::Tensor& x) { return at::concat({x, x}, 1); }, {"rank 1"});
    }));
    trials.push_back(trial("bad_input", [] {
        return refuses([](const torch::Tensor& x) { return x.select(0, 0); }, {"rank 1 gave up", "rank 3"});
    }));
    return trials;
}

}  // namespace ladder::mutants
