#pragma once

#include "common/attention/arguments.h"
#include "common/simt/views/tensor_argument.h"

namespace ladder {

/// One backward pass in plain numbers. `out` and `lse` are what the forward pass left.
struct BackwardArguments : AttentionArguments {
    simt::TensorArgument dout;  ///< [B, Hq, Sq, D]
    simt::TensorArgument dlse;  ///< [B, Hq, Sq], float32; rank 0 where the loss does not look at LSE
    simt::TensorArgument d;     ///< [B, Hq, Sq], float32: D_i = rowsum(dO_i o O_i) - dLSE_i, between the kernels
    /// [B, Hq, Sq, D], float32: where blocks add up dQ, dQ itself in float32; rank 0 where nobody adds. On tensor cores
    /// [B, Hq, tiles, elements of a tile] (DqSumShape).
    simt::TensorArgument dq_sum;
    simt::TensorArgument dq;  ///< [B, Hq, Sq, D]
    simt::TensorArgument dk;  ///< [B, Hkv, Sk, D]
    simt::TensorArgument dv;  ///< [B, Hkv, Sk, D]

    BackwardArguments() = default;
    /// The forward problem's part; the rest is added one by one.
    explicit BackwardArguments(const AttentionArguments& forward) : AttentionArguments(forward) {}
};

/// How the workspace of mma_backward() is cut: dQ's sums lie in tiles, each in the order in which registers hold it.
struct DqSumShape {
    std::int64_t tiles;     ///< query tiles of a head
    std::int64_t elements;  ///< of a tile: its rows, those past the end among them, times columns as compiled
};

}  // namespace ladder
