#include "common/reference/gradient_cases.h"
#include "common/reference/gradient_comparison.h"
#include "common/reference/oracle.h"
#include "common/rung/attention_rung.h"
#include "common/rung/fuzz_entry.h"
#include "common/rung/phase.h"
#include "phase8_backward/backward.h"

namespace ladder::phase8_backward {
namespace {

/// The forward pass makes two products of each pair of tiles, the backward pass five, however often a kernel computes
/// one of them.
constexpr double kProducts = 5.0 / 2.0;

Rung rung_of(const char* name, const char* changes, const RungInput& input, DqGather gather) {
    const AttentionOptions options{.scale = {},
                                   .mask = input.causal.value_or(true) ? Mask::causal_bottom_right : Mask::none};
    const BackwardOptions how{.gather = gather};
    const torch::Tensor q = input.q, k = input.k, v = input.v;
    Rung rung = attention_rung(name, changes, input, options, {}, plain_backward_bytes(q, k, v, options, how),
                               growth_with_query_tiles());
    const AttentionResult exact = reference::attention_oracle(q, k, v, options);
    const AttentionResult given{.out = exact.out.to(q.scalar_type()), .lse = exact.lse.to(torch::kFloat32)};
    at::manual_seed(8);
    const torch::Tensor dout = at::randn(q.sizes()).to(q.options());
    rung.inputs.emplace_back("dout", dout);
    rung.run = [=] {
        const AttentionGradients result = plain_backward(dout, q, k, v, given.out, given.lse, options, how);
        return std::vector<torch::Tensor>{result.dq, result.dk, result.dv};
    };
    rung.check = [=](const std::vector<torch::Tensor>& outputs) {
        return reference::compare_gradients({.dq = outputs[0], .dk = outputs[1], .dv = outputs[2]}, q, k, v, given,
                                            dout, options);
    };
    rung.flops *= kProducts;
    for (const char* tensor : {"dO", "dQ"}) rung.tensor_bytes[tensor] = q.nbytes();
    for (const char* tensor : {"dK", "dV"}) rung.tensor_bytes[tensor] = k.nbytes();
    rung.tensor_bytes["dQ sum"] = q.numel() * sizeof(float);
    rung.tensor_bytes["D"] = rung.tensor_bytes["LSE"];
    return rung;
}

std::vector<Rung> rungs(const RungInput& input) {
    return {rung_of("plain_backward",
                    "The gradients of Q, K and V from LSE and one number more for each row: weights are computed "
                    "again. A block keeps keys and adds up dK and dV; then others keep queries and add up dQ.",
                    input, DqGather::second_pass),
            rung_of("plain_backward_atomics",
                    "The same with five products in place of seven: the block that has dS adds to dQ in global memory, "
                    "in an order that no two runs share.",
                    input, DqGather::atomics)};
}

fuzz::Entry fuzz_entry(DqGather gather) {
    fuzz::Entry entry{.name = "plain_backward",
                      .header = "phase8_backward/backward.h",
                      .test_file = "phase8_backward/backward_test.cpp",
                      .form = fuzz::Form::backward};
    entry.repeats = gather == DqGather::second_pass;
    entry.masks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};
    entry.most_work /= 3;  // five products, or seven
    entry.differentiate = [gather](const fuzz::Operands& t, const fuzz::Problem& p) {
        return plain_backward(t.dout, t.q, t.k, t.v, t.out, t.lse, p.attention.options, {.gather = gather},
                              t.dlse.defined() ? std::optional(t.dlse) : std::nullopt);
    };
    if (gather == DqGather::atomics) entry.more_arguments = "{.gather = DqGather::atomics}";
    return entry;
}

bench::Entry bench_entry(const char* name, const char* colour, DqGather gather) {
    const BackwardOptions how{.gather = gather};
    return {
        .name = name,
        .colour = colour,
        .call =
            [how](const bench::Tensors& t, const bench::Problem& p) {
                const AttentionGradients result = plain_backward(t[3], t[0], t[1], t[2], t[4], t[5], p.options(), how);
                return bench::Tensors{result.dq, result.dk, result.dv};
            },
        .bytes = [how](const bench::Tensors& t,
                       const bench::Problem& p) { return plain_backward_bytes(t[0], t[1], t[2], p.options(), how); }};
}

void bench_cases(bench::CaseList& list) {
    using bench::Lengths, bench::Problem, bench::Sweep;
    const bench::Sizes& sizes = list.sizes();
    const std::vector<std::string> entries = {"plain_backward"};
    const std::vector<std::string> both = {"plain_backward", "plain_backward_atomics"};
    const auto problem_of = [&](std::int64_t length, std::int64_t head_dim, Mask mask) {
        Problem problem = list.attention(length, head_dim);
        problem.work = bench::Work::backward;
        problem.mask = mask;
        return problem;
    };
    list.add(both, problem_of(sizes.base_length, sizes.base_dim, Mask::none), {Sweep::ladder});
    for (const Mask mask : {Mask::none, Mask::causal_bottom_right}) {
        for (const auto head_dim : list.either<Lengths>({64, 128}, {32}))
            list.add(both, problem_of(sizes.base_length, head_dim, mask), {Sweep::headline});
        for (const auto head_dim : sizes.head_dims)
            list.add(both, problem_of(sizes.base_length, head_dim, mask), {Sweep::head_dim});
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
}

}  // namespace

Phase describe() {
    return {.title = "backward",
            .causal_mask = CausalMask::unless_refused,
            .rungs = rungs,
            .fuzz_entries = {fuzz_entry(DqGather::second_pass), fuzz_entry(DqGather::atomics)},
            .bench_entries = {bench_entry("plain_backward", "#4f9a94", DqGather::second_pass),
                              bench_entry("plain_backward_atomics", "#8fc2bd", DqGather::atomics)},
            .bench_cases = bench_cases};
}

}  // namespace ladder::phase8_backward
