#include "phase9_ring/merge.h"

#include <limits>

#include "common/attention/machine.h"
#include "phase9_ring/merge_arguments.h"

namespace ladder {

// merge.cuh, compiled once per machine.
namespace cpu {
void launch_merge(const MergeArguments&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_merge(const MergeArguments&);
}  // namespace cuda

SoFar::SoFar(const torch::Tensor& q)
    : out(at::zeros(q.sizes(), q.options().dtype(torch::kFloat32))),
      lse(at::full(q.sizes().slice(0, 3), -std::numeric_limits<float>::infinity(), out.options())) {}

void SoFar::merge(std::int64_t first, const AttentionResult& part) {
    const std::int64_t rows = part.out.size(2);
    run_on(out.device(), cpu::launch_merge, cuda::launch_merge,
           MergeArguments{.out_part = tensor_argument("O_part", part.out),
                          .lse_part = tensor_argument("LSE_part", part.lse),
                          .out = tensor_argument("O", out.narrow(2, first, rows)),
                          .lse = tensor_argument("LSE", lse.narrow(2, first, rows))});
}

}  // namespace ladder
