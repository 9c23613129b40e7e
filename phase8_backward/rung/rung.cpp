#include "common/reference/gradient_cases.h"
#include "common/reference/gradient_comparison.h"
#include "common/reference/oracle.h"
#include "common/rung/attention_rung.h"
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

}  // namespace

Phase describe() { return {.title = "backward", .causal_mask = CausalMask::unless_refused, .rungs = rungs}; }

}  // namespace ladder::phase8_backward
