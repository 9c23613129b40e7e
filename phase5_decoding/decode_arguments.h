#pragma once

#include <cstdint>

#include "common/attention/arguments.h"

namespace ladder {

/// One decoding problem in plain numbers: what the host entry hands to either machine.
///
/// `out` is [N, D] and `lse` is [N] here, with N = B * Hq * Sq: the kernels write rows and need no more structure.
struct DecodeArguments : AttentionArguments {
    simt::TensorArgument kv_lengths;  ///< [B] int32; rank 0 where every sequence fills the cache
    simt::TensorArgument out_parts;   ///< [splits, N, D] float32; rank 0 with one split, which writes `out` itself
    simt::TensorArgument lse_parts;   ///< [splits, N] float32; likewise
    int splits = 1;                   ///< pieces that the keys of a sequence are cut into
    int warps = 0;                    ///< of a block of the pipelined kernel: 4 or 8; 0 for the plain one

    /// Query heads that share a KV head; rows of Q that read one KV head of one sequence; all rows, N.
    std::int64_t group() const { return query_heads() / kv_heads(); }
    std::int64_t rows_per_kv_head() const { return group() * query_length(); }
    std::int64_t rows() const { return batch() * query_heads() * query_length(); }
};

/// P partial results for each of N rows, to be merged into one.
struct CombineArguments {
    simt::TensorArgument out_parts;  ///< [P, N, D] float32
    simt::TensorArgument lse_parts;  ///< [P, N] float32
    simt::TensorArgument out;        ///< [N, D]
    simt::TensorArgument lse;        ///< [N] float32
    void* stream = nullptr;          ///< cudaStream_t of the caller

    /// P, N and D.
    std::int64_t parts() const { return out_parts.extents[0]; }
    std::int64_t rows() const { return out_parts.extents[1]; }
    std::int64_t head_dim() const { return out_parts.extents[2]; }
};

}  // namespace ladder
