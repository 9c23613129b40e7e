#include <fmt/format.h>

#include <algorithm>

#include "common/attention/machine.h"
#include "common/rung/attention_rung.h"
#include "common/rung/fuzz_entry.h"
#include "common/rung/phase.h"
#include "phase1_naive/naive.h"
#include "phase1_naive/overflow.h"

namespace ladder::phase1_naive {
namespace {

using torch::Tensor;

/// As many query rows per block as the device has shared memory for: up to the default.
std::int64_t fitting_block_rows(Scheme scheme, const Tensor& q, const Tensor& k) {
    const auto limit = std::size_t(device_limits(q.device()).shared_bytes_per_block_optin);
    const BlockedShape shape{.scheme = scheme, .type = tensor_argument("Q", q).type, .head_dim = q.size(3)};
    return std::clamp<std::int64_t>(largest_block_rows(shape, k.size(2), limit), 1, kDefaultBlockRows);
}

Growth growth_with_whole_rows() {
    return {.law = "Θ(N² d / B_r)",
            .source = "K and V once for each B_r queries, fewer of them where whole rows fill the shared memory",
            .with_length = 2};
}

std::vector<Rung> rungs(const RungInput& input) {
    const std::int64_t a_rows = fitting_block_rows(Scheme::q_blocked, input.q, input.k);
    const std::int64_t b_rows = fitting_block_rows(Scheme::qv_blocked, input.q, input.k);
    const auto rows_of = [](std::int64_t rows) {
        return rows == kDefaultBlockRows
                   ? std::string()
                   : fmt::format(" ({} query rows per block: {} would not fit this device.)", rows, kDefaultBlockRows);
    };
    std::vector<Rung> rungs = {
        attention_rung(
            "standard_attention",
            "Three kernels, S = q K^T, P = softmax(S), O = P V, with S and P in global memory: traffic that grows with "
            "the square of the length.",
            input, {}, [](const auto& q, const auto& k, const auto& v) { return standard_attention(q, k, v); },
            standard_attention_bytes(input.q, input.k, input.v),
            {.law = "Θ(N d + N²)", .source = "Dao et al. 2022, Theorem 2", .with_length = 2}),
        attention_rung(
            "q_blocked_attention",
            "Scheme A, one kernel: a block keeps its query rows, all keys, all values and whole rows of scores in "
            "shared memory. Nothing is spilled, and soon nothing fits: see ./ladder overflow." +
                rows_of(a_rows),
            input, {},
            [=](const auto& q, const auto& k, const auto& v) { return q_blocked_attention(q, k, v, {}, a_rows); },
            q_blocked_bytes(input.q, input.k, input.v, {}, a_rows), growth_with_whole_rows()),
        attention_rung(
            "qv_blocked_attention",
            "Scheme B: the values come in tiles. The keys and whole rows of scores stay, because this softmax must "
            "see all of a row." +
                rows_of(b_rows),
            input, {},
            [=](const auto& q, const auto& k, const auto& v) { return qv_blocked_attention(q, k, v, {}, b_rows); },
            qv_blocked_bytes(input.q, input.k, input.v, {}, b_rows), growth_with_whole_rows())};
    rungs.front().repetitions = {{"S", 3, "for its maximum, its sum and its quotients"}};
    return rungs;
}

fuzz::Entry standard_fuzz_entry() {
    fuzz::Entry entry = fuzz::attention_entry("standard_attention", "phase1_naive/naive", standard_attention);
    entry.rounds_scores = true;
    entry.longest_key = fuzz::kLongestSum;
    return entry;
}

using BlockedFunction = AttentionResult (*)(const Tensor&, const Tensor&, const Tensor&, const AttentionOptions&,
                                            std::int64_t);

fuzz::Entry blocked_fuzz_entry(const char* name, BlockedFunction function) {
    fuzz::Entry entry = fuzz::attention_entry(name, "phase1_naive/naive", nullptr);
    entry.form = fuzz::Form::blocked;
    entry.rounds_scores = true;
    entry.call = [=](const fuzz::Operands& t, const fuzz::Problem& p) {
        return function(t.q, t.k, t.v, p.attention.options, p.block_rows.value_or(kDefaultBlockRows));
    };
    return entry;
}

template <auto Run, auto Bytes, Scheme Which>
bench::Entry blocked_bench_entry(const char* name, const char* colour) {
    return {.name = name,
            .colour = colour,
            .call =
                [](const bench::Tensors& t, const bench::Problem& p) {
                    const AttentionResult result =
                        Run(t[0], t[1], t[2], p.options(), fitting_block_rows(Which, t[0], t[1]));
                    return bench::Tensors{result.out, result.lse};
                },
            .bytes =
                [](const bench::Tensors& t, const bench::Problem& p) {
                    return Bytes(t[0], t[1], t[2], p.options(), fitting_block_rows(Which, t[0], t[1]));
                }};
}

void bench_cases(bench::CaseList& list) {
    using bench::Lengths, bench::Sweep;
    const bench::Sizes& sizes = list.sizes();
    const std::vector<std::string> standard = {"standard_attention"};
    list.add(standard, list.attention(list.either<std::int64_t>(1024, 64), sizes.base_dim), {Sweep::headline});
    list.add(standard, list.attention(sizes.base_length, sizes.base_dim), {Sweep::headline, Sweep::ladder});
    for (const auto length : list.either<Lengths>({256, 512, 1024, 2048, 4096}, {32, 64, 128}))
        list.add(standard, list.attention(length, sizes.base_dim), {Sweep::length});
    const std::vector<std::string> blocked = {"q_blocked_attention", "qv_blocked_attention"};
    const auto blocked_lengths = list.either<Lengths>({128, 256}, {64, 128});
    list.add(blocked, list.attention(blocked_lengths.back(), sizes.base_dim), {Sweep::ladder});
    for (const auto length : blocked_lengths)
        list.add(blocked, list.attention(length, sizes.base_dim), {Sweep::length});
}

OverflowTable overflow_table(const OverflowAnswer& answer, const char* name, const char* plan, const char* v) {
    OverflowTable table{.name = name,
                        .plan = plan,
                        .parts = {"Q", "K", v, "S"},
                        .largest_key_length = answer.largest_key_length,
                        .refusal = answer.refusal};
    for (const OverflowRow& row : answer.rows)
        table.rows.push_back({.key_length = row.key_length,
                              .bytes = {row.need.q, row.need.k, row.need.v, row.need.s},
                              .fits_without_asking = row.fits_without_asking,
                              .fits = row.fits});
    if (answer.run)
        table.run = {answer.run->q, answer.run->k, answer.run->v, answer.run->result,
                     answer.run->shared_bytes_per_block};
    return table;
}

OverflowDemo overflow_demo(const OverflowRequest& request) {
    const auto ask = [&](Scheme scheme) {
        return overflow({.device = request.device,
                         .shape = {.scheme = scheme,
                                   .type = request.type,
                                   .head_dim = request.head_dim,
                                   .block_rows = request.block_rows}});
    };
    const OverflowAnswer a = ask(Scheme::q_blocked), b = ask(Scheme::qv_blocked);
    return {.limits = a.limits,
            .tables = {overflow_table(a, "Scheme A", "Q_i, all of K, all of V, whole rows of scores", "V"),
                       overflow_table(b, "Scheme B", "Q_i, all of K, one tile of V, whole rows of scores", "V tile")},
            .lesson =
                "Tiling V buys a little. What grows is K and S, "
                "since this softmax wants the whole row before it can weigh the first value. The online "
                "softmax of phase 0 does not, and phase 2 is built on it."};
}

}  // namespace

Phase describe() {
    return {.title = "naive attention, and the wall it meets",
            .rungs = rungs,
            .fuzz_entries = {standard_fuzz_entry(), blocked_fuzz_entry("q_blocked_attention", q_blocked_attention),
                             blocked_fuzz_entry("qv_blocked_attention", qv_blocked_attention)},
            .bench_entries = {bench::attention_entry<standard_attention, standard_attention_bytes>("standard_attention",
                                                                                                   "#c9586a"),
                              blocked_bench_entry<q_blocked_attention, q_blocked_bytes, Scheme::q_blocked>(
                                  "q_blocked_attention", "#b565a7"),
                              blocked_bench_entry<qv_blocked_attention, qv_blocked_bytes, Scheme::qv_blocked>(
                                  "qv_blocked_attention", "#8f74c4")},
            .bench_cases = bench_cases,
            .overflow = overflow_demo};
}

}  // namespace ladder::phase1_naive
