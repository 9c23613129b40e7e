#include "common/reference/gradient_cases.h"

#include <ATen/CPUGeneratorImpl.h>

#include "common/reference/oracle.h"

namespace ladder::reference {

LossGradients make_loss_gradients(const AttentionCase& problem, torch::Device device) {
    auto generator = at::detail::createCPUGenerator(problem.seed + 1000003);  // other numbers than those of the inputs
    const auto normal = [&](at::IntArrayRef sizes) { return at::randn(sizes, generator, at::kFloat).to(device); };
    const torch::Tensor dout =
        normal({problem.batch, problem.query_heads, problem.query_length, problem.head_dim}).to(problem.dtype);
    return {with_layout(dout, problem.layouts.q), normal({problem.batch, problem.query_heads, problem.query_length})};
}

BackwardInputs make_backward_inputs(const AttentionCase& problem, torch::Device device) {
    const AttentionInputs inputs = make_inputs(problem, device);
    const LossGradients loss = make_loss_gradients(problem, device);
    const AttentionResult exact = attention_oracle(inputs.q, inputs.k, inputs.v, problem.options);
    return {.q = inputs.q,
            .k = inputs.k,
            .v = inputs.v,
            .out = exact.out.to(problem.dtype),
            .lse = exact.lse.to(torch::kFloat32),
            .dout = loss.dout,
            .dlse = loss.dlse,
            .options = problem.options};
}

}  // namespace ladder::reference
