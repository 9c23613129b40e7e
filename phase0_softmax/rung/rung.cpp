#include <fmt/format.h>

#include "common/reference/comparison.h"
#include "common/rung/attention_rung.h"
#include "common/rung/fuzz_entry.h"
#include "common/rung/phase.h"
#include "phase0_softmax/online_attention.h"
#include "phase0_softmax/softmax.h"

namespace ladder::phase0_softmax {
namespace {

using torch::Tensor;

/// Per element: compare with the maximum, subtract it, exponentiate, add, divide.
constexpr double kSoftmaxFlops = 5;

Rung softmax_rung(std::string kernel, std::string changes, int passes, const Tensor& x, Tensor (*entry)(const Tensor&),
                  GlobalBytes bytes) {
    return {.kernel = std::move(kernel),
            .changes = std::move(changes),
            .inputs = {{"x", x}},
            .run = [=] { return std::vector<Tensor>{entry(x)}; },
            .check = [=](const std::vector<Tensor>& outputs) { return reference::compare_softmax(outputs[0], x); },
            .bytes = bytes,
            .flops = kSoftmaxFlops * double(x.numel()),
            .growth = {.law = "Θ(N²)",
                       .source = "every score of an N x N matrix, a fixed number of times",
                       .with_length = 2},
            .tensor_bytes = {{"x", x.nbytes()}, {"y", x.nbytes()}},
            .repetitions = {{"x", double(passes), fmt::format("once in each of {} passes", passes)}}};
}

std::vector<Rung> rungs(const RungInput& input) {
    const Tensor& x = input.scores;
    const Tensor long_rows = x.reshape({input.q.size(1), -1});
    const RungInput few = with_newest(input);
    // The plain kernel of block_softmax on every device: the passes below are those that its source makes.
    std::vector<Rung> rungs = {
        softmax_rung("safe_softmax",
                     "Three passes over each row: its maximum, the sum of the exponentials below it, the quotients. "
                     "Every score is read three times.",
                     3, x, safe_softmax, safe_softmax_bytes(x)),
        softmax_rung("online_softmax",
                     "Two passes: the maximum and the sum grow together, and the sum is rescaled whenever the maximum "
                     "moves. Every score is read twice.",
                     2, x, online_softmax, online_softmax_bytes(x)),
        softmax_rung("block_softmax",
                     "The pair (m, l) merges associatively, so a row can be cut into pieces: lanes, warps, a whole "
                     "block at work on one long row (here all scores of a head).",
                     2, long_rows, block_plain_softmax, block_plain_softmax_bytes(long_rows)),
        attention_rung(
            "online_attention",
            "One pass: the output is rescaled like the sum, so softmax(q K^T) V of one query row needs every key and "
            "value once, and no memory that grows with N. All later rungs grow from this one.",
            few, {}, [](const auto& q, const auto& k, const auto& v) { return online_attention(q, k, v); },
            online_attention_bytes(few.q, few.k, few.v), growth_with_few_queries())};
    const double rows_per_key_head = double(few.q.size(2) * few.q.size(1)) / double(few.k.size(1));
    for (const char* tensor : {"K", "V"})
        rungs.back().repetitions.push_back({tensor, rows_per_key_head, "once for each query row"});
    return rungs;
}

fuzz::Entry softmax_fuzz_entry(const char* name, Tensor (*function)(const Tensor&)) {
    return {.name = name,
            .header = "phase0_softmax/softmax.h",
            .test_file = "phase0_softmax/softmax_test.cpp",
            .form = fuzz::Form::softmax,
            .longest_query = 40,
            .longest_key = 6000,
            .call = [=](const fuzz::Operands& t, const fuzz::Problem&) {
                return AttentionResult{function(t.q), {}};
            }};
}

/// A warp spends five shuffles on each score, which the CPU machine takes its time for.
fuzz::Entry attention_fuzz_entry() {
    fuzz::Entry entry = fuzz::attention_entry("online_attention", "phase0_softmax/online_attention", online_attention);
    entry.adds_keys_in_turn = true;
    entry.longest_key = fuzz::kLongestSum;
    entry.most_scores = 12'000;
    return entry;
}

template <auto Run, auto Bytes>
bench::Entry softmax_bench_entry(const char* name, const char* colour) {
    return {.name = name,
            .colour = colour,
            .call = [](const bench::Tensors& t, const bench::Problem&) { return bench::Tensors{Run(t[0])}; },
            .bytes = [](const bench::Tensors& t, const bench::Problem&) { return Bytes(t[0]); }};
}

void bench_cases(bench::CaseList& list) {
    using bench::Lengths, bench::Sweep;
    const auto softmax = [&](torch::ScalarType dtype, std::int64_t columns, const std::set<Sweep>& sweeps) {
        list.add({"safe_softmax", "online_softmax", "block_plain_softmax", "block_softmax"},
                 {.work = bench::Work::softmax,
                  .dtype = dtype,
                  .queries = list.either<std::int64_t>(16384, 32),
                  .keys = columns},
                 sweeps);
    };
    const auto headline_columns = list.either<Lengths>({4096, 32768}, {256}),
               columns_to_sweep =
                   list.either<Lengths>({1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072}, {64, 256, 1024});
    for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
        for (const auto columns : headline_columns) softmax(dtype, columns, {Sweep::headline, Sweep::dtype});
        for (const auto columns : columns_to_sweep) softmax(dtype, columns, {Sweep::columns});
    }
    softmax(torch::kFloat32, headline_columns.front(), {Sweep::ladder});
    bench::Problem one_query =
        list.decode(list.either<bench::DecodeShape>({.batch = 16, .query_heads = 32, .kv_heads = 32, .keys = 4096},
                                                    {.batch = 1, .query_heads = 2, .kv_heads = 2, .keys = 128}),
                    torch::kFloat32);
    one_query.head_dim = list.sizes().base_dim;
    list.add({"online_attention"}, one_query, {Sweep::headline, Sweep::ladder});
}

}  // namespace

Phase describe() {
    return {.title = "softmax, safe and online",
            .rungs = rungs,
            .fuzz_entries = {softmax_fuzz_entry("safe_softmax", safe_softmax),
                             softmax_fuzz_entry("online_softmax", online_softmax),
                             softmax_fuzz_entry("block_plain_softmax", block_plain_softmax),
                             softmax_fuzz_entry("block_softmax", block_softmax), attention_fuzz_entry()},
            .bench_entries = {softmax_bench_entry<safe_softmax, safe_softmax_bytes>("safe_softmax", "#c2703d"),
                              softmax_bench_entry<online_softmax, online_softmax_bytes>("online_softmax", "#d18f3a"),
                              softmax_bench_entry<block_plain_softmax, block_plain_softmax_bytes>("block_plain_softmax",
                                                                                                  "#cdb56f"),
                              softmax_bench_entry<block_softmax, block_softmax_bytes>("block_softmax", "#b8963e"),
                              bench::attention_entry<online_attention, online_attention_bytes>("online_attention",
                                                                                               "#a8a23f")},
            .bench_cases = bench_cases};
}

}  // namespace ladder::phase0_softmax
