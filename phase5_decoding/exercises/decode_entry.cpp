#include "phase5_decoding/decode.cuh"

#include "common/classroom/runner/problem.h"
#include "phase5_decoding/combine.cuh"

namespace ladder::classroom {
namespace {

/// O [B, H, S, D] as [B H S, D], and LSE [B, H, S] as [B H S]: what the kernels write.
simt::TensorArgument as_rows(simt::TensorArgument tensor, std::int64_t head_dim) {
    const bool has_columns = tensor.rank == 4;
    const std::int64_t rows = tensor.extents[0] * tensor.extents[1] * tensor.extents[2];
    tensor.rank = has_columns ? 2 : 1;
    tensor.extents = {rows, has_columns ? head_dim : 0};
    tensor.strides = {has_columns ? head_dim : 1, has_columns ? 1 : 0};
    return tensor;
}

}  // namespace

void run(Problem& problem) {
    DecodeArguments a;
    static_cast<AttentionArguments&>(a) = problem.attention();
    a.kv_lengths = problem.tensor("kv_lengths");
    a.splits = int(problem.number("splits"));
    a.out = as_rows(a.out, a.head_dim());
    a.lse = as_rows(a.lse, a.head_dim());
    if (a.splits > 1) {
        a.out_parts = problem.workspace("O_part", simt::ElementType::f32, {a.splits, a.rows(), a.head_dim()});
        a.lse_parts = problem.workspace("LSE_part", simt::ElementType::f32, {a.splits, a.rows()});
    }
    cpu::launch_decode_split(a);
    if (a.splits > 1)
        cpu::launch_decode_combine({.out_parts = a.out_parts, .lse_parts = a.lse_parts, .out = a.out, .lse = a.lse});
}

}  // namespace ladder::classroom
