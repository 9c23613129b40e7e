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

/// `part` is merged into `sum`, where that lies, but for O, which goes to `out`.
MergeArguments arguments_of(const AttentionResult& sum, const AttentionResult& part, const torch::Tensor& out) {
    return {.out_before = tensor_argument("O", sum.out),
            .lse_before = tensor_argument("LSE", sum.lse),
            .out_part = tensor_argument("O_part", part.out),
            .lse_part = tensor_argument("LSE_part", part.lse),
            .out = tensor_argument("O", out),
            .lse = tensor_argument("LSE", sum.lse)};
}

void merge_into(const AttentionResult& sum, const AttentionResult& part, const torch::Tensor& out) {
    run_on(out.device(), cpu::launch_merge, cuda::launch_merge, arguments_of(sum, part, out));
}

}  // namespace

SoFar::SoFar(const torch::Tensor& q) : q_(q) {}

AttentionResult SoFar::nothing() const {
    const auto in_float32 = q_.options().dtype(torch::kFloat32);
    return {.out = at::zeros(q_.sizes(), in_float32),
            .lse = at::full(q_.sizes().slice(0, 3), -std::numeric_limits<float>::infinity(), in_float32)};
}

void SoFar::add_waiting(torch::ScalarType sum_dtype) {
    if (!waiting_) return;
    if (!sum_.out.defined()) {  // the first part: there is nothing to merge it with
        sum_ = *waiting_;
    } else {
        const torch::Tensor out =
            sum_.out.scalar_type() == sum_dtype ? sum_.out : at::empty(q_.sizes(), q_.options().dtype(sum_dtype));
        merge_into(sum_, *waiting_, out);
        sum_.out = out;
    }
    waiting_.reset();
}

void SoFar::merge(std::int64_t first, const AttentionResult& part) {
    RECORD_USER_SCOPE("merge");
    add_waiting(torch::kFloat32);
    const std::int64_t rows = part.out.size(2);
    if (rows == q_.size(2)) {
        waiting_ = part;
        return;
    }
    if (!sum_.out.defined()) sum_ = nothing();
    sum_.out = sum_.out.to(torch::kFloat32);
    const AttentionResult of_rows{.out = sum_.out.narrow(2, first, rows), .lse = sum_.lse.narrow(2, first, rows)};
    merge_into(of_rows, part, of_rows.out);
}

AttentionResult SoFar::result() {
    RECORD_USER_SCOPE("merge");
    add_waiting(q_.scalar_type());
    const AttentionResult all = sum_.out.defined() ? sum_ : nothing();
    return {.out = all.out.to(q_.scalar_type()), .lse = all.lse};
}

GlobalBytes merge_bytes(const AttentionResult& part, int parts) {
    const torch::Tensor in_float32 = at::empty(part.out.sizes(), part.out.options().dtype(torch::kFloat32));
    GlobalBytes all{};
    for (int merge = 1; merge < parts; ++merge) {
        const AttentionResult before{merge == 1 ? part.out : in_float32, part.lse};
        const GlobalBytes one =
            cpu::merge_bytes(arguments_of(before, part, merge + 1 == parts ? part.out : in_float32));
        all.read += one.read;
        all.written += one.written;
    }
    return all;
}

}  // namespace ladder
