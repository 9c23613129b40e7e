#include "common/rung/attention_rung.h"
#include "common/rung/fuzz_entry.h"
#include "common/rung/phase.h"
#include "phase4_causal/causal.h"

namespace ladder::phase4_causal {
namespace {

std::vector<Rung> rungs(const RungInput& input) {
    const AttentionOptions options{.scale = {},
                                   .mask = input.causal.value_or(true) ? Mask::causal_bottom_right : Mask::none};
    Rung rung = attention_rung(
        "causal_forward",
        "A query sees only what came before it. The key loop goes in stages: full tiles without a mask, tiles on the "
        "diagonal with one, tiles above it never loaded. The scale carries log2(e), so that exp2 serves.",
        input, options,
        [=](const auto& q, const auto& k, const auto& v) { return causal_plain_forward(q, k, v, options); },
        causal_plain_bytes(input.q, input.k, input.v, options), growth_with_query_tiles());
    if (rung.causal)
        for (const char* tensor : {"K", "V"})
            rung.repetitions.push_back({tensor, {}, "each block skips the keys that none of its queries sees"});
    return {std::move(rung)};
}

fuzz::Entry fuzz_entry(const char* name, fuzz::AttentionFunction function) {
    fuzz::Entry entry = fuzz::attention_entry(name, "phase4_causal/causal", function);
    entry.masks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};
    return entry;
}

void bench_cases(bench::CaseList& list) {
    using bench::Problem, bench::Sweep;
    const bench::Sizes& sizes = list.sizes();
    const std::vector<std::string> entries = {"causal_forward"};
    const std::vector<std::string> steps = {"causal_plain_forward", "causal_forward"};
    const auto causal = [&](std::int64_t length, std::int64_t head_dim) {
        Problem problem = list.attention(length, head_dim);
        problem.mask = Mask::causal_bottom_right;
        return problem;
    };
    list.add(steps, causal(sizes.base_length, sizes.base_dim), {Sweep::ladder});
    for (const auto head_dim : sizes.length_sweep_dims) {
        Problem headline = causal(list.either<std::int64_t>(8192, 128), head_dim);
        headline.batch = list.either<std::int64_t>(4, 1);
        list.add(steps, headline, {Sweep::headline});
        headline.dtype = torch::kBFloat16;
        list.add(entries, headline, {Sweep::dtype});
        list.sweep_lengths(entries, head_dim, Mask::causal_bottom_right);
    }
    list.add_other_head_dims(entries, Mask::causal_bottom_right);
}

}  // namespace

Phase describe() {
    return {
        .title = "causal masks, in stages",
        .causal_mask = CausalMask::unless_refused,
        .rungs = rungs,
        .fuzz_entries = {fuzz_entry("causal_plain_forward", causal_plain_forward),
                         fuzz::chooses_by_size(fuzz_entry("causal_forward", causal_forward)),
                         fuzz::chooses_by_size(fuzz::tiled(fuzz_entry("causal_tiled_forward", causal_tiled_forward)))},
        .bench_entries = {bench::attention_entry<causal_plain_forward, causal_plain_bytes>("causal_plain_forward",
                                                                                           "#6fbab3"),
                          bench::attention_entry<causal_forward, causal_forward_bytes>("causal_forward", "#2fa39a")},
        .bench_cases = bench_cases};
}

}  // namespace ladder::phase4_causal
