#include "common/rung/attention_rung.h"
#include "common/rung/fuzz_entry.h"
#include "common/rung/phase.h"
#include "phase3_fa2/fa2.h"

namespace ladder::phase3_fa2 {
namespace {

std::vector<Rung> rungs(const RungInput& input) {
    return {attention_rung(
        "fa2_forward",
        "FlashAttention-2: the loops trade places. A block keeps its query rows, so O, l and m live in registers and "
        "are written once, and blocks along the sequence need nothing from each other.",
        input, {}, [](const auto& q, const auto& k, const auto& v) { return fa2_plain_forward(q, k, v); },
        fa2_plain_bytes(input.q, input.k, input.v), growth_with_query_tiles())};
}

void bench_cases(bench::CaseList& list) {
    using bench::Problem, bench::Sweep;
    const bench::Sizes& sizes = list.sizes();
    const std::vector<std::string> entries = {"fa2_forward"};
    const std::vector<std::string> steps = {"fa2_plain_forward", "fa2_forward"};
    list.add(steps, list.attention(sizes.base_length, sizes.base_dim), {Sweep::headline, Sweep::ladder});
    for (const auto head_dim : sizes.length_sweep_dims) {
        list.add(steps, list.attention(sizes.base_length, head_dim), {Sweep::headline});
        list.sweep_lengths(entries, head_dim);
        for (const auto dtype : {torch::kFloat32, torch::kFloat16, torch::kBFloat16}) {
            Problem problem = list.attention(sizes.base_length, head_dim);
            problem.dtype = dtype;
            list.add(entries, problem, {Sweep::dtype});
        }
    }
    for (const auto head_dim : sizes.head_dims)
        list.add(entries, list.attention(sizes.base_length, head_dim), {Sweep::head_dim});
    list.add_other_head_dims(entries);
    list.add(entries, list.attention(sizes.base_length, sizes.base_dim), {Sweep::batch_and_heads});
    using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
    for (const auto& [batch, heads] :
         list.either<Pairs>({{1, 1}, {1, 4}, {1, 16}, {2, 16}, {8, 16}}, {{1, 1}, {1, 4}})) {
        Problem problem = list.attention(sizes.base_length, sizes.base_dim);
        problem.batch = batch;
        problem.query_heads = problem.kv_heads = heads;
        list.add(entries, problem, {Sweep::batch_and_heads});
    }
}

}  // namespace

Phase describe() {
    const auto fuzz_entry = [](const char* name, fuzz::AttentionFunction function) {
        return fuzz::attention_entry(name, "phase3_fa2/fa2", function);
    };
    bench::Entry fastest = bench::attention_entry<fa2_forward, fa2_forward_bytes>("fa2_forward", "#3b8fd6");
    fastest.unmasked_peer = "fa2";
    return {
        .title = "FlashAttention-2: queries outside",
        .rungs = rungs,
        .beside_the_phase_before = "On an input this short that, and not traffic, is what phase 3 gains over phase 2.",
        .fuzz_entries = {fuzz_entry("fa2_plain_forward", fa2_plain_forward),
                         fuzz::chooses_by_size(fuzz_entry("fa2_forward", fa2_forward)),
                         fuzz::chooses_by_size(fuzz::tiled(fuzz_entry("fa2_tiled_forward", fa2_tiled_forward)))},
        .bench_entries = {bench::attention_entry<fa2_plain_forward, fa2_plain_bytes>("fa2_plain_forward", "#6aa5d8"),
                          fastest},
        .bench_cases = bench_cases};
}

}  // namespace ladder::phase3_fa2
