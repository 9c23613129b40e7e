#pragma once

#include <cstdint>

#include "common/simt/views/tensor_argument.h"

namespace ladder {

/// Which keys a query may see. With Sq queries and Sk keys, query i sees key j when
///
///   none                 always
///   causal_bottom_right  j <= i + Sk - Sq    the last query sees the last key (FlashAttention >= 2.1)
///   causal_top_left      j <= i              the first query sees the first key (PyTorch's `is_causal`)
///
/// The two causal alignments agree exactly when Sq == Sk.
enum class Mask { none, causal_bottom_right, causal_top_left };

/// One attention problem in plain numbers: what a host entry hands to the launch function of either machine.
struct AttentionArguments {
    simt::TensorArgument q;    ///< [B, Hq, Sq, D]
    simt::TensorArgument k;    ///< [B, Hkv, Sk, D]
    simt::TensorArgument v;    ///< [B, Hkv, Sk, D]
    simt::TensorArgument out;  ///< [B, Hq, Sq, D]
    simt::TensorArgument lse;  ///< [B, Hq, Sq], float32; rank 0 where a phase yields none
    float scale = 0;           ///< factor on Q K^T
    Mask mask = Mask::none;    ///< which keys a query sees
    int multiprocessors = 1;   ///< of the device that runs it: blocks that it takes to keep all of it busy
    std::int64_t shared_bytes_per_block = 0;           ///< of that device: the most that a block gets
    std::int64_t shared_bytes_per_multiprocessor = 0;  ///< of that device: of all blocks that live on one together
    void* stream = nullptr;                            ///< cudaStream_t of the caller; the CPU machine has no streams

    /// The sizes, read off the shapes above.
    std::int64_t batch() const { return q.extents[0]; }
    std::int64_t query_heads() const { return q.extents[1]; }
    std::int64_t kv_heads() const { return k.extents[1]; }
    std::int64_t query_length() const { return q.extents[2]; }
    std::int64_t key_length() const { return k.extents[2]; }
    std::int64_t head_dim() const { return q.extents[3]; }
};

/// What an algorithm must move between a kernel and global memory, by formula. Each phase states its own; its tests
/// hold the formula against what the CPU machine counts, and the tour prints it where nothing counts, on the GPU.
struct GlobalBytes {
    std::uint64_t read = 0;     ///< by the kernels, from global memory
    std::uint64_t written = 0;  ///< by the kernels, to global memory
    /// As many bytes each way.
    friend bool operator==(const GlobalBytes&, const GlobalBytes&) = default;
};

}  // namespace ladder
