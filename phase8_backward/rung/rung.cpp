#include "common/reference/gradient_cases.h"
#include "common/reference/gradient_comparison.h"
#include "common/reference/oracle.h"
#include "common/rung/attention_rung.h"
#include "common/rung/fuzz_entry.h"
#include "common/rung/phase.h"
#include "common/simt/device/device.h"
#include "common/simt/device/device_profile.h"
#include "phase8_backward/backward.h"
#include "phase8_backward/hopper_backward.h"
#include "phase8_backward/mma_backward.h"

namespace ladder::phase8_backward {
namespace {

/// The forward pass makes two products of each pair of tiles, the backward pass five, however often a kernel computes
/// one of them.
constexpr double kProducts = 5.0 / 2.0;

/// An entry, and its traffic formula.
struct Backward {
    decltype(plain_backward)* call;
    decltype(plain_backward_bytes)* bytes;
};

/// On the CPU machine as on an H100, where it imitates a device without wgmma.
AttentionGradients on_hopper(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k,
                             const torch::Tensor& v, const torch::Tensor& out, const torch::Tensor& lse,
                             const AttentionOptions& options, const BackwardOptions& how,
                             const std::optional<torch::Tensor>& dlse) {
    if (simt::cpu_device().has_feature(simt::Feature::wgmma))
        return hopper_backward(dout, q, k, v, out, lse, options, how, dlse);
    const simt::ScopedCpuDevice h100(simt::device_from(simt::device_profile("h100")));
    return hopper_backward(dout, q, k, v, out, lse, options, how, dlse);
}

/// On the CPU machine as on an H100, where it imitates a device without room for such tiles.
AttentionGradients on_large_device(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k,
                                   const torch::Tensor& v, const torch::Tensor& out, const torch::Tensor& lse,
                                   const AttentionOptions& options, const BackwardOptions& how,
                                   const std::optional<torch::Tensor>& dlse) {
    const simt::Device h100 = simt::device_from(simt::device_profile("h100"));
    if (simt::cpu_device().shared_bytes_per_block_optin >= h100.shared_bytes_per_block_optin)
        return tiled_backward(dout, q, k, v, out, lse, options, how, dlse);
    const simt::ScopedCpuDevice imitated(h100);
    return tiled_backward(dout, q, k, v, out, lse, options, how, dlse);
}

constexpr Backward kPlain{plain_backward, plain_backward_bytes}, kTiled{on_large_device, tiled_backward_bytes},
    kMma{mma_backward, mma_backward_bytes}, kHopper{on_hopper, hopper_backward_bytes};

Rung rung_of(const char* name, const char* changes, const RungInput& input, Backward entry, DqGather gather) {
    const AttentionOptions options{.scale = {},
                                   .mask = input.causal.value_or(true) ? Mask::causal_bottom_right : Mask::none};
    const BackwardOptions how{.gather = gather};
    const torch::Tensor q = input.q, k = input.k, v = input.v;
    Rung rung = attention_rung(name, changes, input, options, {}, entry.bytes(q, k, v, options, how, false),
                               growth_with_query_tiles());
    const AttentionResult exact = reference::attention_oracle(q, k, v, options);
    const AttentionResult given{.out = exact.out.to(q.scalar_type()), .lse = exact.lse.to(torch::kFloat32)};
    at::manual_seed(8);
    const torch::Tensor dout = at::randn(q.sizes()).to(q.options());
    rung.inputs.emplace_back("dout", dout);
    rung.run = [=] {
        const AttentionGradients result = entry.call(dout, q, k, v, given.out, given.lse, options, how, {});
        return std::vector<torch::Tensor>{result.dq, result.dk, result.dv};
    };
    rung.check = [=](const std::vector<torch::Tensor>& outputs) {
        return reference::compare_gradients({.dq = outputs[0], .dk = outputs[1], .dv = outputs[2]}, q, k, v, given,
                                            dout, options);
    };
    rung.flops *= kProducts;
    rung.tensor_cores = entry.call != kPlain.call && entry.call != kTiled.call;
    for (const char* tensor : {"dO", "dQ"}) rung.tensor_bytes[tensor] = q.nbytes();
    for (const char* tensor : {"dK", "dV"}) rung.tensor_bytes[tensor] = k.nbytes();
    rung.tensor_bytes["dQ sum"] = q.numel() * sizeof(float);
    rung.tensor_bytes["D"] = rung.tensor_bytes["LSE"];
    return rung;
}

std::vector<Rung> rungs(const RungInput& input) {
    std::vector<Rung> rungs = {
        rung_of("plain_backward",
                "The gradients of Q, K and V from LSE and one number more for each row: weights are computed "
                "again. A block keeps keys and adds up dK and dV; then others keep queries and add up dQ.",
                input, kPlain, DqGather::second_pass),
        rung_of("plain_backward_atomics",
                "The same with five products in place of seven: the block that has dS adds to dQ in global memory, "
                "in an order that no two runs share.",
                input, kPlain, DqGather::atomics)};
    if (input.q.scalar_type() == torch::kFloat32) {
        if (input.q.size(3) <= kWidestTiledBackward)
            rungs.push_back(rung_of("tiled_backward_atomics",
                                    "The same with tiles of 128 keys by 128 queries (the CPU machine imitates an H100, "
                                    "which has room for them): a thread has 8 x 8 scores, and queries are fetched "
                                    "while dQ is added up.",
                                    input, kTiled, DqGather::atomics));
        return rungs;
    }
    rungs.push_back(
        rung_of("mma_backward",
                "All products on tensor cores. Warps work in pairs, one for P and dV, one for dS and dK; what "
                "the first makes the other needs, and each is an operand in the registers that made it.",
                input, kMma, DqGather::second_pass));
    rungs.push_back(
        rung_of("mma_backward_atomics",
                "The same with five products: the warps of dS compute dQ of the tile before while those of P "
                "make weights.",
                input, kMma, DqGather::atomics));
    rungs.push_back(
        rung_of("hopper_backward_atomics",
                "Hopper alone (the CPU machine imitates one): two warpgroups own 64 keys each, and P and dS are their "
                "operands in registers. A warp fetches queries, and another has dQ added up in global memory.",
                input, kHopper, DqGather::atomics));
    return rungs;
}

/// Where key tiles add to dQ in their order: a block looks until it is its turn, so nobody counts what it reads.
std::vector<Rung> rungs_in_order(const RungInput& input) {
    if (input.q.scalar_type() == torch::kFloat32) return {};
    return {rung_of("hopper_backward", "The same, and dQ repeats to the bit.", input, kHopper, DqGather::in_order)};
}

fuzz::Entry fuzz_entry(const char* name, const char* file, Backward backward, DqGather gather) {
    fuzz::Entry entry{.name = name,
                      .header = file + std::string(".h"),
                      .test_file = file + std::string("_test.cpp"),
                      .form = fuzz::Form::backward};
    entry.repeats = gather != DqGather::atomics;
    entry.masks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};
    entry.most_work /= 3;  // five products, or seven
    entry.differentiate = [backward, gather](const fuzz::Operands& t, const fuzz::Problem& p) {
        return backward.call(t.dout, t.q, t.k, t.v, t.out, t.lse, p.attention.options, {.gather = gather},
                             t.dlse.defined() ? std::optional(t.dlse) : std::nullopt);
    };
    if (gather == DqGather::atomics) entry.more_arguments = "{.gather = DqGather::atomics}";
    if (gather == DqGather::in_order) entry.more_arguments = "{.gather = DqGather::in_order}";
    return entry;
}

fuzz::Entry plain_fuzz_entry(DqGather gather) {
    return fuzz_entry("plain_backward", "phase8_backward/backward", kPlain, gather);
}

fuzz::Entry tiled_fuzz_entry(DqGather gather) {
    fuzz::Entry entry = fuzz_entry("tiled_backward", "phase8_backward/tiled_backward", kTiled, gather);
    entry.header = "phase8_backward/backward.h";
    entry.dtypes = {torch::kFloat32};
    entry.widest_head = kWidestTiledBackward;
    return entry;
}

/// On tensor cores.
fuzz::Entry in_16_bits(fuzz::Entry entry, simt::Features needs) {
    entry.dtypes = {torch::kFloat16, torch::kBFloat16};
    entry.rounds_weights = true;
    entry.needs = needs;
    return entry;
}

fuzz::Entry mma_fuzz_entry(DqGather gather) {
    return in_16_bits(fuzz_entry("mma_backward", "phase8_backward/mma_backward", kMma, gather),
                      {simt::Feature::mma, simt::Feature::cp_async});
}

fuzz::Entry hopper_fuzz_entry(DqGather gather) {
    return in_16_bits(fuzz_entry("hopper_backward", "phase8_backward/hopper_backward", kHopper, gather),
                      {simt::Feature::tma, simt::Feature::wgmma});
}

bench::Entry bench_entry(const char* name, const char* colour, Backward entry, DqGather gather) {
    const BackwardOptions how{.gather = gather};
    return {.name = name,
            .colour = colour,
            .call =
                [entry, how](const bench::Tensors& t, const bench::Problem& p) {
                    const AttentionGradients result =
                        entry.call(t[3], t[0], t[1], t[2], t[4], t[5], p.options(), how, {});
                    return bench::Tensors{result.dq, result.dk, result.dv};
                },
            .bytes = [entry, how](
                         const bench::Tensors& t,
                         const bench::Problem& p) { return entry.bytes(t[0], t[1], t[2], p.options(), how, false); }};
}

void bench_cases(bench::CaseList& list) {
    using bench::Lengths, bench::Problem, bench::Sweep;
    const bench::Sizes& sizes = list.sizes();
    const std::vector<std::string> entries = {"plain_backward", "tiled_backward_atomics"};
    const std::vector<std::string> both = {"plain_backward", "plain_backward_atomics"};
    const auto problem_of = [&](std::int64_t length, std::int64_t head_dim, Mask mask) {
        Problem problem = list.attention(length, head_dim);
        problem.work = bench::Work::backward;
        problem.mask = mask;
        return problem;
    };
    const auto with_tiles = [&](std::int64_t head_dim) {
        std::vector<std::string> all = both;
        if (head_dim <= kWidestTiledBackward) all.insert(all.end(), {"tiled_backward", "tiled_backward_atomics"});
        return all;
    };
    list.add(with_tiles(sizes.base_dim), problem_of(sizes.base_length, sizes.base_dim, Mask::none), {Sweep::ladder});
    for (const Mask mask : {Mask::none, Mask::causal_bottom_right}) {
        for (const auto head_dim : list.either<Lengths>({64, 128}, {32}))
            list.add(with_tiles(head_dim), problem_of(sizes.base_length, head_dim, mask), {Sweep::headline});
        for (const auto head_dim : sizes.head_dims)
            list.add(with_tiles(head_dim), problem_of(sizes.base_length, head_dim, mask), {Sweep::head_dim});
        for (const auto length : sizes.lengths)
            list.add(entries, problem_of(length, sizes.base_dim, mask), {Sweep::length},
                     mask == Mask::none && length <= sizes.lengths[1]);
    }
    Problem in_16_bits = problem_of(sizes.base_length, sizes.base_dim, Mask::none);
    in_16_bits.dtype = torch::kBFloat16;
    list.add(both, in_16_bits, {Sweep::dtype});
    Problem grouped = problem_of(sizes.base_length, sizes.base_dim, Mask::none);
    grouped.kv_heads = std::max<std::int64_t>(1, grouped.query_heads / 4);
    list.add(both, grouped, {Sweep::batch_and_heads});

    // Those on tensor cores: as many numbers in a token's heads together whatever the head dimension is.
    const std::vector<std::string> hopper = {"mma_backward", "mma_backward_atomics", "hopper_backward",
                                             "hopper_backward_atomics"};
    const std::int64_t width = sizes.heads * list.either<std::int64_t>(128, 32);
    const auto wide_problem_of = [&](std::int64_t length, std::int64_t head_dim, Mask mask) {
        Problem problem = problem_of(length, head_dim, mask);
        problem.query_heads = problem.kv_heads = std::max<std::int64_t>(1, width / head_dim);
        problem.dtype = torch::kBFloat16;
        return problem;
    };
    const std::int64_t long_enough = list.either<std::int64_t>(8192, 128);
    list.add(hopper, wide_problem_of(long_enough, list.either<std::int64_t>(128, 32), Mask::none), {Sweep::ladder});
    for (const Mask mask : {Mask::none, Mask::causal_bottom_right}) {
        for (const auto head_dim : list.either<Lengths>({64, 128, 256}, {32}))
            list.add(hopper, wide_problem_of(long_enough, head_dim, mask), {Sweep::headline});
        for (const auto head_dim : list.either<Lengths>({64, 128, 256}, {32}))
            for (const auto length : list.either<Lengths>({2048, 16384}, {64}))
                list.add(hopper, wide_problem_of(length, head_dim, mask), {Sweep::length});
    }
}

}  // namespace

Phase describe() {
    return {.title = "backward",
            .causal_mask = CausalMask::unless_refused,
            .rungs = rungs,
            .traced_besides = rungs_in_order,
            .fuzz_entries = {plain_fuzz_entry(DqGather::second_pass), plain_fuzz_entry(DqGather::atomics),
                             tiled_fuzz_entry(DqGather::second_pass), tiled_fuzz_entry(DqGather::atomics),
                             mma_fuzz_entry(DqGather::second_pass), mma_fuzz_entry(DqGather::atomics),
                             hopper_fuzz_entry(DqGather::in_order), hopper_fuzz_entry(DqGather::atomics)},
            .bench_entries = {bench_entry("plain_backward", "#4f9a94", kPlain, DqGather::second_pass),
                              bench_entry("plain_backward_atomics", "#8fc2bd", kPlain, DqGather::atomics),
                              bench_entry("tiled_backward", "#3d7d54", kTiled, DqGather::second_pass),
                              bench_entry("tiled_backward_atomics", "#86b896", kTiled, DqGather::atomics),
                              bench_entry("mma_backward", "#2f6f8f", kMma, DqGather::second_pass),
                              bench_entry("mma_backward_atomics", "#7fb0c8", kMma, DqGather::atomics),
                              bench_entry("hopper_backward", "#6b3fa0", kHopper, DqGather::in_order),
                              bench_entry("hopper_backward_atomics", "#a58cc9", kHopper, DqGather::atomics)},
            .bench_cases = bench_cases};
}

}  // namespace ladder::phase8_backward
