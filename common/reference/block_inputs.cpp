#include "common/reference/block_inputs.h"

#include <ATen/CPUGeneratorImpl.h>

namespace ladder::reference {
namespace {

/// Of a tensor [B, H, S, D]: rows times 2^(growth * number of their block).
torch::Tensor grown(const torch::Tensor& x, std::int64_t growth, std::int64_t rows) {
    const auto block = at::arange(x.size(2), at::kLong).div(rows, "floor");
    return x * at::exp2((block * growth).to(at::kFloat)).view({x.size(2), 1});
}

torch::Tensor with_outliers(const torch::Tensor& x, at::Generator& generator) {
    constexpr double kShare = 0.001, kTimes = 10.0;
    const auto chosen = at::rand(x.sizes(), generator, at::kFloat).lt(kShare);
    return x + at::randn(x.sizes(), generator, at::kFloat).mul(kTimes).mul(chosen);
}

}  // namespace

AttentionInputs make_block_inputs(const AttentionCase& problem, const BlockSizes& sizes, std::int64_t rows,
                                  torch::Device device) {
    AttentionCase plain = problem;
    plain.dtype = torch::kFloat32;
    plain.layouts = {};
    AttentionInputs inputs = make_inputs(plain, torch::kCPU);
    if (sizes.outliers) {
        at::Generator generator = at::detail::createCPUGenerator(problem.seed + 1);
        for (torch::Tensor* x : {&inputs.q, &inputs.k, &inputs.v}) *x = with_outliers(*x, generator);
    }
    inputs.k = grown(inputs.k, sizes.key_growth, rows);
    inputs.v = grown(inputs.v, sizes.value_growth, rows);
    const auto place = [&](const torch::Tensor& x, Layout layout) {
        return with_layout(x.to(problem.dtype).to(device), layout);
    };
    return {place(inputs.q, problem.layouts.q), place(inputs.k, problem.layouts.k), place(inputs.v, problem.layouts.v)};
}

}  // namespace ladder::reference
