#include "tests/fuzz/planted.h"

#include <cmath>
#include <ostream>
#include <stdexcept>
#include <utility>

#include "common/attention/check.h"
#include "common/attention/outputs.h"
#include "common/reference/comparison.h"
#include "common/reference/gradient_oracle.h"
#include "common/reference/oracle.h"
#include "common/simt/simt.h"

namespace ladder::fuzz {
namespace {

using Call = std::function<AttentionResult(const Operands&, const Problem&)>;

AttentionResult attend(const Operands& t, const AttentionOptions& options) {
    const AttentionResult exact = reference::attention_oracle(t.q, t.k, t.v, options, t.kv_lengths);
    return {exact.out.to(t.q.scalar_type()), exact.lse.to(torch::kFloat32)};
}

AttentionResult honest_attention(const Operands& t, const Problem& p) {
    check_attention(t.q, t.k, t.v, p.attention.options);
    return attend(t, p.attention.options);
}

AttentionResult honest_softmax(const Operands& t, const Problem&) {
    check_tensor("x", t.q, 2);
    return {reference::softmax_oracle(t.q).to(t.q.scalar_type()), {}};
}

AttentionResult honest_decode(const Operands& t, const Problem& p) {
    check_attention(t.q, t.k, t.v, p.attention.options, {Mask::none, Mask::causal_bottom_right});
    if (t.kv_lengths) {
        const bool fits = t.kv_lengths->defined() && t.kv_lengths->scalar_type() == torch::kInt64 &&
                          t.kv_lengths->size(0) == t.q.size(0) && t.kv_lengths->ge(0).all().item<bool>() &&
                          t.kv_lengths->le(t.k.size(2)).all().item<bool>();
        if (!fits) throw std::invalid_argument("kv_lengths: undefined, Float, [3] instead of [2], -1, or 8 above 7");
    }
    if (p.splits && (*p.splits < 1 || *p.splits > 1024))
        throw std::invalid_argument("splits: it is " + std::to_string(*p.splits));
    return attend(t, p.attention.options);
}

/// The operands as a rotary embedding leaves them, in their dtype. What makes codes of them in the stand-in makes none:
/// an exact entry has no use for them.
Operands turned(const Operands& t, const Problem& p) {
    if (!p.eight_bits.first_query) return t;
    const auto turn = [&](const torch::Tensor& x, std::int64_t first) {
        const torch::Tensor x64 = x.to(torch::kFloat64), even = x64.slice(3, 0, {}, 2), odd = x64.slice(3, 1, {}, 2);
        const torch::Tensor c = t.cosines.narrow(0, first, x.size(2)), s = t.sines.narrow(0, first, x.size(2));
        return at::stack({even * c - odd * s, even * s + odd * c}, 4).reshape(x.sizes()).to(x.scalar_type());
    };
    return {.q = turn(t.q, *p.eight_bits.first_query), .k = turn(t.k, 0), .v = t.v};
}

AttentionResult honest_eight_bits(const Operands& t, const Problem& p) {
    check_attention(t.q, t.k, t.v, p.attention.options);
    if (const auto first = p.eight_bits.first_query) {
        const std::int64_t positions = std::max(*first + t.q.size(2), t.k.size(2));
        const auto fits = [&](const torch::Tensor& table) {
            return table.defined() && table.dim() == 2 && table.scalar_type() == torch::kFloat32 &&
                   table.stride(1) == 1 && table.size(0) >= positions && 2 * table.size(1) == t.q.size(3);
        };
        if (*first < 0 || !fits(t.cosines) || !fits(t.sines))
            throw std::invalid_argument(
                "first_query is -1, 15 columns are not even, or a table is undefined, [8], [7, 4] without 8 angles, "
                "[6, 8] without 7 positions, [7, 8] without 8 positions, Double and not float32, or not contiguous");
    }
    return attend(turned(t, p), p.attention.options);
}

reference::Comparison compare_turned(const AttentionResult& result, const Operands& t, const Problem& p) {
    const Operands operands = turned(t, p);
    return reference::compare_attention(result, operands.q, operands.k, operands.v, p.attention.options);
}

AttentionGradients honest_backward(const Operands& t, const Problem& p) {
    check_attention(t.q, t.k, t.v, p.attention.options, {Mask::none});
    const bool belongs = t.dout.sizes() == t.q.sizes() && t.out.sizes() == t.q.sizes() &&
                         t.lse.scalar_type() == torch::kFloat32 && t.dlse.dim() == 3;
    if (!belongs)
        throw std::invalid_argument("dout: [2, 2, 2, 16], out: [2, 2, 3, 8], lse: Double, or dlse: of rank 2");
    const AttentionGradients exact = reference::gradient_oracle(t.q, t.k, t.v, t.dout, p.attention.options, t.dlse);
    const auto dtype = t.q.scalar_type();
    return {exact.dq.to(dtype), exact.dk.to(dtype), exact.dv.to(dtype)};
}

/// The honest entry, unless `mistaken` says so; then what `spoil` makes of its operands, problem or result.
Entry with_mistake(const std::function<bool(const Operands&, const Problem&)>& mistaken, const Call& wrong,
                   Form form = Form::attention) {
    Entry entry = honest_entry(form);
    entry.call = [=, honest = entry.call](const Operands& t, const Problem& p) {
        AttentionResult right = honest(t, p);  // refuses bad input first
        return mistaken(t, p) ? wrong(t, p) : right;
    };
    return entry;
}

bool always(const Operands&, const Problem&) { return true; }

AttentionResult without_last_key(const Operands& t, const Problem& p) {
    const std::int64_t fewer = t.k.size(2) - 1;
    return attend({.q = t.q, .k = t.k.narrow(2, 0, fewer), .v = t.v.narrow(2, 0, fewer)}, p.attention.options);
}

/// Each row of a tile is written by one thread and read by its neighbour, with no barrier between: right by luck, as
/// the result is not used.
AttentionResult race(const Operands& t, const Problem& p) {
    const auto kernel = [] {
        simt::SharedArena arena;
        const auto tile = arena.tile<float, 1, 64>("tile");
        tile(0, int(threadIdx.x)) = 1.0f;
        __syncthreads();
        const float neighbour = tile(0, int(threadIdx.x + 1) % 64);
        tile(0, int(threadIdx.x)) = neighbour;
    };
    using Kernel = decltype(kernel);
    void (*const run)(Kernel) = [](Kernel k) { k(); };
    simt::launch("racing_kernel", {.gridDim = 1, .blockDim = 64, .dynamicSmemBytes = 256}, run, kernel);
    return attend(t, p.attention.options);
}

Planted drops_last_key() {
    return {.name = "DropsLastKey",
            .entry = with_mistake([](const Operands& t, const Problem&) { return t.k.size(2) > 1; }, without_last_key),
            .kind = "wrong answer",
            .smallest = "f32_q1_k2_d1",
            .lines = {"problem.key_length = 2;", "problem.head_dim = 1;"}};
}

Planted drops_last_key_beyond_a_tile() {
    return {.name = "DropsTheOneKeyOfTheLastTile",
            .entry = with_mistake(
                [](const Operands& t, const Problem&) { return t.k.size(2) > 64 && t.k.size(2) % 64 == 1; },
                without_last_key),
            .kind = "wrong answer",
            .smallest = "f32_q1_k65_d1",
            .lines = {"problem.key_length = 65;", "EXPECT_TRUE(matches_reference(planted, problem, test_device()));"}};
}

Planted nan_without_mask() {
    Entry entry = with_mistake([](const Operands&, const Problem& p) { return p.attention.options.mask == Mask::none; },
                               [](const Operands& t, const Problem&) {
                                   return AttentionResult{at::full_like(t.q, NAN), at::zeros({1})};
                               },
                               Form::decode);
    entry.masks = {Mask::causal_bottom_right, Mask::none};
    return {.name = "NanWithoutMask",
            .entry = entry,
            .kind = "wrong answer",
            .smallest = "f32_q1_k1_d1",
            .lines = {"planted(q, k, v, {.attention = options})"}};
}

Planted wrong_grouped_head() {
    return {.name = "WrongGroupedHead",
            .entry = with_mistake(
                always,
                [](const Operands& t, const Problem& p) {
                    const std::int64_t group = t.q.size(1) / t.k.size(1);
                    return attend({.q = t.q, .k = t.k.repeat({1, group, 1, 1}), .v = t.v.repeat({1, group, 1, 1})},
                                  p.attention.options);
                }),
            .kind = "wrong answer",
            .smallest = "f32_h4_kv2_q1_k1_d1",
            .lines = {"problem.query_heads = 4;", "problem.kv_heads = 2;"}};
}

Planted races() {
    return {.name = "Races",
            .entry = with_mistake([](const Operands& t, const Problem&) { return t.q.size(2) >= 16; }, race),
            .kind = "shared-memory race",
            .smallest = "f32_q16_k1_d1",
            .lines = {"problem.query_length = 16;"}};
}

Planted throws() {
    return {.name = "Throws",
            .entry = with_mistake([](const Operands& t, const Problem&) { return t.q.size(3) > 128; },
                                  [](const Operands& t, const Problem&) -> AttentionResult {
                                      throw std::runtime_error("no kernel for D = " + std::to_string(t.q.size(3)));
                                  }),
            .kind = "threw: no kernel for D = ",
            .smallest = "f32_q1_k1_d129",
            .lines = {"problem.head_dim = 129;"}};
}

Planted writes_to_its_input() {
    return {.name = "WritesToItsInput",
            .entry = with_mistake([](const Operands& t, const Problem&) { return t.k.stride(2) > t.k.size(3); },
                                  [](const Operands& t, const Problem& p) {
                                      const AttentionResult result = attend(t, p.attention.options);
                                      t.k[0][0][0][0].add_(1);
                                      return result;
                                  }),
            .kind = "wrote to its input",
            .smallest = "f32_q1_k1_d1_k_packed_qkv",
            .lines = {"problem.layouts.k = Layout::packed_qkv;"}};
}

Planted forgets_the_sign_of_the_scale() {
    return {.name = "ForgetsTheSignOfTheScale",
            .entry = with_mistake(always,
                                  [](const Operands& t, const Problem& p) {
                                      AttentionOptions options = p.attention.options;
                                      if (options.scale) options.scale = std::abs(*options.scale);
                                      return attend(t, options);
                                  }),
            .kind = "wrong answer",
            .smallest = "",  // one key suffices: the log-sum-exp is the score; which scale was drawn does not matter
            .lines = {"problem.options.scale = -"}};
}

Planted leaves_the_last_row_unwritten() {
    return {.name = "LeavesTheLastRowUnwritten",
            .entry = with_mistake([](const Operands& t, const Problem&) { return t.q.size(2) > 4; },
                                  [](const Operands& t, const Problem& p) {
                                      const AttentionResult right = attend(t, p.attention.options);
                                      const torch::Tensor out = allocate(t.q.sizes(), right.out.options());
                                      const std::int64_t rows = t.q.size(2) - 1;
                                      out.narrow(2, 0, rows).copy_(right.out.narrow(2, 0, rows));
                                      return AttentionResult{out, right.lse};
                                  }),
            .kind = "wrong answer",
            .smallest = "f32_q5_k1_d1",
            .lines = {"problem.query_length = 5;", "const PoisonOutputs poison_outputs;"}};
}

Planted swallows_nan() {
    return {.name = "SwallowsNan",
            .entry = with_mistake(always,
                                  [](const Operands& t, const Problem& p) {
                                      return attend(
                                          {.q = at::where(t.q.isnan(), at::zeros_like(t.q), t.q), .k = t.k, .v = t.v},
                                          p.attention.options);
                                  }),
            .kind = "wrong answer",
            .smallest = "f32_q1_k1_d1, q[0][0][0][0] = NaN",
            .lines = {"q[0][0][0][0].fill_(NAN);", "compare_attention(result, q, k, v, problem.options);"}};
}

/// As a race between blocks might: which block comes first depends on how many run at a time.
Planted depends_on_the_workers() {
    return {.name = "DependsOnTheWorkers",
            .entry = with_mistake([](const Operands&, const Problem&) { return simt::cpu_workers() == 2; },
                                  [](const Operands& t, const Problem& p) {
                                      AttentionResult result = attend(t, p.attention.options);
                                      result.lse = at::nextafter(result.lse, result.lse + 1);
                                      return result;
                                  }),
            .kind = "a second call gives another result",
            .smallest = "f32_q1_k1_d1, called twice",
            .lines = {"EXPECT_TRUE(same_bits(result.lse, again.lse));"}};
}

Planted sees_its_batch() {
    return {.name = "SeesItsBatch",
            .entry = with_mistake([](const Operands& t, const Problem&) { return t.q.size(0) > 1; },
                                  [](const Operands& t, const Problem& p) {
                                      AttentionResult result = attend(t, p.attention.options);
                                      result.lse = at::nextafter(result.lse, result.lse + 1);
                                      return result;
                                  }),
            .kind = "neighbours in the batch change the result",
            .smallest = "f32_b2_q1_k1_d1, with and without batch neighbours",
            .lines = {"problem.batch = 2;", "EXPECT_TRUE(same_bits(alone(result.lse), again.lse));"}};
}

/// Asks for more than it needs, and does so again where that much is there.
Planted refuses_what_would_fit() {
    return {.name = "RefusesWhatWouldFit",
            .entry = with_mistake([](const Operands& t, const Problem&) { return t.k.size(2) >= 100; },
                                  [](const Operands& t, const Problem& p) {
                                      check_shared_memory(
                                          "planted", std::size_t(simt::cpu_device().shared_bytes_per_block_optin) + 1,
                                          t.q.device(), "nothing helps");
                                      return attend(t, p.attention.options);
                                  }),
            .kind = "refused wrongly",
            .smallest = "f32_q1_k100_d1",
            .lines = {"problem.key_length = 100;"}};
}

Planted accepts_a_bad_call() {
    Entry entry = honest_entry();
    entry.call = [](const Operands& t, const Problem& p) {
        AttentionOptions options = p.attention.options;
        if (options.scale && std::isnan(*options.scale)) options.scale.reset();
        check_attention(t.q, t.k, t.v, options);
        return attend(t, options);
    };
    return {.name = "AcceptsABadCall",
            .entry = entry,
            .kind = "accepted a bad call",
            .smallest = "bad call scale_nan",
            .lines = {"refuses_bad_input(planted)", "scale_nan"}};
}

Planted wrong_on_a_small_device() {
    return {.name = "WrongOnASmallDevice",
            .entry = with_mistake(
                [](const Operands& t, const Problem&) {
                    return t.k.size(2) > 1 && simt::cpu_device().shared_bytes_per_block_optin == 48 * 1024;
                },
                without_last_key),
            .kind = "wrong answer",
            .smallest = "f32_q1_k2_d1, on gtx1080",
            .lines = {"simt::device_profile(\"gtx1080\")"}};
}

Planted ignores_lengths() {
    return {.name = "IgnoresLengths",
            .entry = with_mistake([](const Operands& t, const Problem&) { return t.kv_lengths.has_value(); },
                                  [](const Operands& t, const Problem& p) {
                                      return attend({.q = t.q, .k = t.k, .v = t.v}, p.attention.options);
                                  },
                                  Form::decode),
            .kind = "wrong answer",
            .smallest = "f32_q1_k1_d1, kv_lengths {0}",
            .lines = {"torch::tensor({0}, torch::kInt64)", ".kv_lengths = kv_lengths", "Lse::present, kv_lengths"}};
}

Planted wrong_with_three_splits_of_two_tiles() {
    return {.name = "WrongWithThreeSplits",
            .entry = with_mistake(
                [](const Operands& t, const Problem& p) { return t.k.size(2) > 128 && p.splits && *p.splits > 2; },
                [](const Operands& t, const Problem& p) {
                    AttentionResult result = attend(t, p.attention.options);
                    result.lse += 1;
                    return result;
                },
                Form::decode),
            .kind = "wrong answer",
            .smallest = "f32_q1_k129_d1, splits 3",
            .lines = {"planted(q, k, v, {.attention = options, .splits = 3})", "problem.key_length = 129;"}};
}

Planted softmax_drops_the_tail() {
    return {.name = "SoftmaxDropsTheTail",
            .entry = with_mistake(
                [](const Operands& t, const Problem&) { return t.q.size(1) % 32 == 1 && t.q.size(1) > 32; },
                [](const Operands& t, const Problem&) {
                    const torch::Tensor y = at::softmax(t.q.to(torch::kFloat32), -1);
                    y.select(1, t.q.size(1) - 1).zero_();
                    return AttentionResult{y.to(t.q.scalar_type()), {}};
                },
                Form::softmax),
            .kind = "wrong answer",
            .smallest = "f32_q1_k33_d16",
            .lines = {"make_scores(problem, test_device())", "problem.key_length = 33;"}};
}

Planted adds_too_much_to_keys_of_the_second_tile() {
    Entry entry = honest_entry(Form::backward);
    entry.differentiate = [](const Operands& t, const Problem& p) {
        const AttentionGradients right = honest_backward(t, p);
        if (t.k.size(2) > 64) right.dk.narrow(2, 64, 1).add_(1);
        return right;
    };
    return {.name = "AddsTooMuchToKeysOfTheSecondTile",
            .entry = entry,
            .kind = "wrong answer",
            .smallest = "f32_q1_k65_d1",
            .lines = {"const BackwardInputs x = make_backward_inputs(problem, test_device());",
                      "planted(x.dout, x.q, x.k, x.v, x.out, x.lse, x.options, {}, x.dlse)"}};
}

Planted one_scale_for_all_values() {
    return {.name = "OneScaleForAllValues",
            .entry = with_mistake(
                [](const Operands& t, const Problem& p) {
                    return t.k.size(2) > kScaledRows && p.eight_bits.sizes.value_growth != 0;
                },
                [](const Operands& t, const Problem& p) {
                    const torch::Tensor v = t.v.clone();
                    v.narrow(2, kScaledRows, 1).mul_(std::exp2(-double(p.eight_bits.sizes.value_growth)));
                    return attend(turned({.q = t.q, .k = t.k, .v = v, .cosines = t.cosines, .sines = t.sines}, p),
                                  p.attention.options);
                },
                Form::eight_bits),
            .kind = "wrong answer",
            .smallest = "f32_q1_k129_d1, values grow by 2^-1",
            .lines = {"make_block_inputs(problem, {.value_growth = -1}, 128, test_device())",
                      "planted(q, k, v, problem.options, how)"}};
}

Planted all_queries_from_position_0() {
    return {.name = "AllQueriesFromPosition0",
            .entry =
                with_mistake([](const Operands&, const Problem& p) { return p.eight_bits.first_query.value_or(0) > 0; },
                             [](const Operands& t, const Problem& p) {
                                 Problem otherwise = p;
                                 otherwise.eight_bits.first_query = 0;
                                 return attend(turned(t, otherwise), p.attention.options);
                             },
                             Form::eight_bits),
            .kind = "wrong answer",
            .smallest = "f32_q1_k1_d2, rotary from 1",
            .lines = {"rotary_tables(2, 2, test_device())", ".rotary = Rotary{cosines, sines, 1}"}};
}

Planted writes_to_its_tables() {
    return {.name = "WritesToItsTables",
            .entry = with_mistake([](const Operands& t, const Problem&) { return t.cosines.defined(); },
                                  [](const Operands& t, const Problem& p) {
                                      const AttentionResult result = honest_eight_bits(t, p);
                                      t.sines.add_(1);
                                      return result;
                                  },
                                  Form::eight_bits),
            .kind = "wrote to its input",
            .smallest = "f32_q1_k1_d2, rotary from 0",
            .lines = {".rotary = Rotary{cosines, sines, 0}"}};
}

Planted takes_a_table_that_is_too_short() {
    Entry entry = honest_entry(Form::eight_bits);
    entry.call = [honest = entry.call](const Operands& t, const Problem& p) {
        if (p.eight_bits.first_query && t.cosines.defined() && t.cosines.dim() == 2 && t.sines.defined() &&
            t.cosines.size(0) < t.sines.size(0))
            return attend(t, p.attention.options);
        return honest(t, p);
    };
    return {.name = "TakesATableThatIsTooShort",
            .entry = entry,
            .kind = "accepted a bad call",
            .smallest = "bad call rotary_cosines_of_too_few_positions",
            .lines = {"refuses_bad_input(entry, traits)", "rotary_cosines_of_too_few_positions"}};
}

Planted loses_a_key_between_three_ranks() {
    return {.name = "LosesAKeyBetweenThreeRanks",
            .entry = with_mistake(
                [](const Operands& t, const Problem& p) {
                    return t.k.size(2) > 1 && p.sharing.ranks > 2 && p.sharing.zigzag;
                },
                without_last_key, Form::shared),
            .kind = "wrong answer",
            .smallest = "f32_q1_k2_d1, 3 ranks, zigzag",
            .lines = {"return planted_on_threads(q, k, v, options, 3, Parts::zigzag);"}};
}

}  // namespace

Entry honest_entry(Form form) {
    Entry entry{.name = "planted",
                .header = "phase3_fa2/fa2.h",
                .test_file = "phase3_fa2/fa2_test.cpp",
                .form = form,
                .most_work = 200'000,
                .most_scores = 20'000,
                .call = form == Form::softmax      ? Call(honest_softmax)
                        : form == Form::decode     ? Call(honest_decode)
                        : form == Form::eight_bits ? Call(honest_eight_bits)
                                                   : Call(honest_attention)};
    if (form == Form::eight_bits) {
        entry.compare = compare_turned;
        entry.comparison = "compare_planted";
        entry.comparison_header = "planted.h";
    }
    if (form == Form::backward) {
        entry.call = {};
        entry.differentiate = honest_backward;
    }
    if (form == Form::decode) entry.masks = {Mask::none, Mask::causal_bottom_right};
    return entry;
}

std::ostream& operator<<(std::ostream& stream, const Planted& planted) { return stream << planted.name; }

std::vector<Planted> planted_mistakes() {
    return {drops_last_key(),
            adds_too_much_to_keys_of_the_second_tile(),
            drops_last_key_beyond_a_tile(),
            nan_without_mask(),
            wrong_grouped_head(),
            races(),
            throws(),
            writes_to_its_input(),
            forgets_the_sign_of_the_scale(),
            leaves_the_last_row_unwritten(),
            swallows_nan(),
            depends_on_the_workers(),
            sees_its_batch(),
            refuses_what_would_fit(),
            accepts_a_bad_call(),
            wrong_on_a_small_device(),
            ignores_lengths(),
            wrong_with_three_splits_of_two_tiles(),
            softmax_drops_the_tail(),
            one_scale_for_all_values(),
            all_queries_from_position_0(),
            writes_to_its_tables(),
            takes_a_table_that_is_too_short(),
            loses_a_key_between_three_ranks()};
}

}  // namespace ladder::fuzz
