#include "phase9_ring/merge.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <limits>
#include <utility>

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

/// Rows that met nothing yet.
AttentionResult nothing(const torch::Tensor& q) {
    return {.out = at::zeros(q.sizes(), q.options()),
            .lse = at::full(q.sizes().slice(0, 3), -std::numeric_limits<float>::infinity(),
                            q.options().dtype(torch::kFloat32))};
}

}  // namespace

SoFar::SoFar(const torch::Tensor& q) : q_(q.detach()) {}

bool SoFar::has_met(const Part& part) const {
    return std::ranges::any_of(met_, [&](const auto& rows) {
        return part.first < rows.second && rows.first < part.first + part.of.out.size(2);
    });
}

void SoFar::add_waiting(torch::ScalarType sum_dtype) {
    if (!waiting_) return;
    RECORD_USER_SCOPE("merge");
    const Part part = *std::exchange(waiting_, std::nullopt);
    const std::int64_t rows = part.of.out.size(2);
    const bool all_rows = rows == q_.size(2), again = has_met(part);
    met_.emplace_back(part.first, part.first + rows);
    if (all_rows && !again) {  // there is nothing to merge it with
        sum_ = part.of;
        return;
    }
    if (!sum_.out.defined()) sum_ = nothing(q_);
    const auto of_rows = [&](const torch::Tensor& whole) { return whole.narrow(2, part.first, rows); };
    if (!again) {
        of_rows(sum_.out).copy_(part.of.out);
        of_rows(sum_.lse).copy_(part.of.lse);
    } else if (all_rows && sum_.out.scalar_type() != sum_dtype) {
        const AttentionResult before = sum_;
        sum_.out = at::empty(q_.sizes(), q_.options().dtype(sum_dtype));
        merge_into(before, part.of, sum_.out);
    } else {
        if (sum_dtype == torch::kFloat32) sum_.out = sum_.out.to(sum_dtype);
        merge_into({of_rows(sum_.out), of_rows(sum_.lse)}, part.of, of_rows(sum_.out));
    }
}

void SoFar::merge(std::int64_t first, const AttentionResult& part) {
    add_waiting(torch::kFloat32);
    waiting_ = {.first = first, .of = part};
}

AttentionResult SoFar::result() {
    add_waiting(q_.scalar_type());
    const AttentionResult all = sum_.out.defined() ? sum_ : nothing(q_);
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
