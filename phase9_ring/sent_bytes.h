#pragma once

#include <cstdint>

namespace ladder {

/// Sizes of the whole problem.
struct WholeSizes {
    std::int64_t batch = 1, query_heads = 1, kv_heads = 1;        ///< B, Hq, Hkv
    std::int64_t query_length = 1, key_length = 1, head_dim = 1;  ///< Sq, Sk, D
    std::int64_t element_bytes = 4;                               ///< of a number in q, k and v
};

/// Bytes of tensors that all R ranks together send.
struct SentBytes {
    std::int64_t forward = 0;   ///< in the forward pass
    std::int64_t backward = 0;  ///< in the backward pass, where the loss looks at out
};

/// Of ring_attention(). Forward: K and V, R - 1 times. Backward: the same; dK and dV, in float32, R - 1 times; and
/// these home, in their own dtype.
SentBytes ring_bytes(const WholeSizes& sizes, int ranks);

/// Of gathered_attention(). Forward: K and V, R - 1 times. Backward: the same, and dK and dV in float32 as often.
SentBytes gathered_bytes(const WholeSizes& sizes, int ranks);

/// Of ulysses_attention(), where R divides all lengths. Forward: Q, K, V, out and lse, but for the part of 1 / R that
/// stays. Backward: the same of their gradients; autograd asks for that of lse where the loss looks at it.
SentBytes ulysses_bytes(const WholeSizes& sizes, int ranks);

}  // namespace ladder
