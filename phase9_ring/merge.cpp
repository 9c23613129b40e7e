#include "phase9_ring/merge.h"

#include <ATen/record_function.h>

#include <limits>

#include "common/attention/machine.h"
#include "phase9_ring/merge_arguments.h"

namespace ladder {

// merge.cuh, compiled once per machine.
namespace cpu {
void launch_merge(const MergeArguments&);
GlobalBytes merge_bytes(const MergeArguments&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_merge(const MergeArguments&);
}  // namespace cuda

namespace {

/// `part` is merged into `sum`, where that lies.
MergeArguments arguments_of(const AttentionResult& sum, const AttentionResult& part) {
    return {.out_before = tensor_argument("O", sum.out),
            .lse_before = tensor_argument("LSE", sum.lse),
            .out_part = tensor_argument("O_part", part.out),
            .lse_part = tensor_argument("LSE_part", part.lse),
            .out = tensor_argument("O", sum.out),
            .lse = tensor_argument("LSE", sum.lse)};
}

}  // namespace

SoFar::SoFar(const torch::Tensor& q) : q_(q) {}

AttentionResult SoFar::nothing() const {
    const auto in_float32 = q_.options().dtype(torch::kFloat32);
    return {.out = at::zeros(q_.sizes(), in_float32),
            .lse = at::full(q_.sizes().slice(0, 3), -std::numeric_limits<float>::infinity(), in_float32)};
}

void SoFar::merge(std::int64_t first, const AttentionResult& part) {
    RECORD_USER_SCOPE("merge");
    const std::int64_t rows = part.out.size(2);
    if (!sum_.out.defined() && rows == q_.size(2)) {  // the first part of all rows: there is nothing to merge it with
        sum_ = {.out = part.out.to(torch::kFloat32), .lse = part.lse};
        return;
    }
    if (!sum_.out.defined()) sum_ = nothing();
    const AttentionResult sum{.out = sum_.out.narrow(2, first, rows), .lse = sum_.lse.narrow(2, first, rows)};
    run_on(q_.device(), cpu::launch_merge, cuda::launch_merge, arguments_of(sum, part));
}

AttentionResult SoFar::result() const {
    const AttentionResult all = sum_.out.defined() ? sum_ : nothing();
    return {.out = all.out.to(q_.scalar_type()), .lse = all.lse};
}

GlobalBytes merge_bytes(const AttentionResult& part) { return cpu::merge_bytes(arguments_of(part, part)); }

}  // namespace ladder
