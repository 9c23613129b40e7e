#include "common/reference/gradient_cases.h"

#include <ATen/CPUGeneratorImpl.h>

namespace ladder::reference {

LossGradients make_loss_gradients(const AttentionCase& problem, torch::Device device) {
    auto generator = at::detail::createCPUGenerator(problem.seed + 1000003);  // other numbers than those of the inputs
    const auto normal = [&](at::IntArrayRef sizes) { return at::randn(sizes, generator, at::kFloat).to(device); };
    const torch::Tensor dout =
        normal({problem.batch, problem.query_heads, problem.query_length, problem.head_dim}).to(problem.dtype);
    return {with_layout(dout, problem.layouts.q), normal({problem.batch, problem.query_heads, problem.query_length})};
}

}  // namespace ladder::reference
