#include "common/rung/attention_rung.h"
#include "common/rung/fuzz_entry.h"
#include "common/rung/phase.h"
#include "phase6_tensor_cores/mma.h"

namespace ladder::phase6_tensor_cores {
namespace {

const std::vector<torch::ScalarType> kTypes = {torch::kFloat16, torch::kBFloat16};

template <auto Run, auto Bytes>
Rung rung_of(const char* name, const char* changes, const RungInput& input) {
    const AttentionOptions options{.scale = {},
                                   .mask = input.causal.value_or(true) ? Mask::causal_bottom_right : Mask::none};
    Rung rung = attention_rung(
        name, changes, input, options,
        [=](const auto& q, const auto& k, const auto& v) { return Run(q, k, v, options); },
        Bytes(input.q, input.k, input.v, options), growth_with_query_tiles());
    rung.tensor_cores = true;
    if (rung.causal)
        for (const char* tensor : {"K", "V"})
            rung.repetitions.push_back({tensor, {}, "each block skips the keys that none of its queries sees"});
    return rung;
}

std::vector<Rung> rungs(const RungInput& input) {
    return {rung_of<mma_plain_forward, mma_plain_bytes>(
                "mma_plain_forward",
                "The loop of phase 4 with both products on tensor cores: a warp multiplies 16 x 16 by 16 x 8 at once. "
                "The scores stay in the registers where the first product leaves them, and become the operand of the "
                "second.",
                input),
            rung_of<mma_forward, mma_forward_bytes>(
                "mma_forward",
                "The tensor cores no longer wait: rows without bank conflicts, keys and values copied while the tile "
                "before is multiplied, 32 query rows a warp, tiles that suit the device.",
                input)};
}

fuzz::Entry fuzz_entry(const char* name, fuzz::AttentionFunction function) {
    fuzz::Entry entry = fuzz::attention_entry(name, "phase6_tensor_cores/mma", function);
    entry.dtypes = kTypes;
    entry.rounds_weights = true;
    entry.needs = {simt::Feature::mma, simt::Feature::cp_async};
    entry.masks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};
    return entry;
}

void bench_cases(bench::CaseList& list) {
    using bench::Lengths, bench::Problem, bench::Sweep;
    const bench::Sizes& sizes = list.sizes();
    const std::vector<std::string> entries = {"mma_forward"};
    const std::vector<std::string> steps = {"mma_plain_forward", "mma_forward"};
    // As many numbers in a token's heads together whatever the head dimension is, as in models of one size.
    const std::int64_t width = sizes.heads * list.either<std::int64_t>(128, 32);
    const auto problem_of = [&](std::int64_t length, std::int64_t head_dim, Mask mask) {
        Problem problem = list.attention(length, head_dim);
        problem.query_heads = problem.kv_heads = std::max<std::int64_t>(1, width / head_dim);
        problem.mask = mask;
        problem.dtype = torch::kBFloat16;
        return problem;
    };
    const std::int64_t long_enough = list.either<std::int64_t>(8192, 128);
    const std::int64_t usual_dim = list.either<std::int64_t>(128, 32);
    list.add(steps, problem_of(long_enough, usual_dim, Mask::none), {Sweep::ladder});
    for (const Mask mask : {Mask::none, Mask::causal_bottom_right}) {
        for (const auto head_dim : list.either<Lengths>({64, 128, 256}, {32}))
            list.add(steps, problem_of(long_enough, head_dim, mask), {Sweep::headline});
        for (const auto head_dim : list.either<Lengths>({32, 64, 96, 128, 192, 256}, {32, 64}))
            list.add(entries, problem_of(long_enough, head_dim, mask), {Sweep::head_dim});
        for (const auto head_dim : sizes.length_sweep_dims)
            for (const auto length : sizes.lengths)
                list.add(entries, problem_of(length, head_dim, mask), {Sweep::length},
                         head_dim == sizes.length_sweep_dims.back() && length <= sizes.lengths[1]);
    }
    Problem in_float16 = problem_of(long_enough, usual_dim, Mask::none);
    in_float16.dtype = torch::kFloat16;
    list.add(entries, in_float16, {Sweep::dtype});
}

}  // namespace

Phase describe() {
    return {
        .title = "tensor cores",
        .causal_mask = CausalMask::unless_refused,
        .dtypes = kTypes,
        .rungs = rungs,
        .fuzz_entries = {fuzz_entry("mma_forward", mma_forward), fuzz_entry("mma_plain_forward", mma_plain_forward)},
        .bench_entries = {bench::attention_entry<mma_plain_forward, mma_plain_bytes>("mma_plain_forward", "#d99a6c"),
                          bench::attention_entry<mma_forward, mma_forward_bytes>("mma_forward", "#c4662a")},
        .bench_cases = bench_cases};
}

}  // namespace ladder::phase6_tensor_cores
