#pragma once

#include "common/attention/mask.h"
#include "common/simt/tensor_argument.h"

namespace ladder {

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
    void* stream = nullptr;    ///< cudaStream_t of the caller; the CPU machine has no streams

    /// The sizes, read off the shapes above.
    std::int64_t batch() const { return q.extents[0]; }
    std::int64_t query_heads() const { return q.extents[1]; }
    std::int64_t kv_heads() const { return k.extents[1]; }
    std::int64_t query_length() const { return q.extents[2]; }
    std::int64_t key_length() const { return k.extents[2]; }
    std::int64_t head_dim() const { return q.extents[3]; }
};

}  // namespace ladder
