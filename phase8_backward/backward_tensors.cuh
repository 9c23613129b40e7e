#pragma once

#include <cstdint>

#include "common/attention/dispatch.cuh"
#include "common/attention/key_tiles.cuh"
#include "common/simt/simt.h"
#include "phase8_backward/backward_arguments.h"

namespace ladder::SIMT_MACHINE {

/// What the backward kernels are given: the views of one problem.
template <class T>
struct BackwardTensors {
    simt::GlobalTensor<const T, 4> Q, K, V, O, dO;  ///< [B, Hq, Sq, D], and [B, Hkv, Sk, D] for K and V
    simt::GlobalTensor<const float, 3> LSE, dLSE;   ///< [B, Hq, Sq]; dLSE is empty where there is none
    simt::GlobalTensor<float, 3> D;                 ///< [B, Hq, Sq]
    simt::GlobalTensor<float, 4> dQ_sum;            ///< [B, Hq, Sq, D]; empty where nobody adds
    simt::GlobalTensor<T, 4> dQ, dK, dV;            ///< shaped like Q, K and V
    float scale;                                    ///< factor on Q K^T
    bool has_dlse;                                  ///< whether there is a dLSE
    bool vector_rows;                               ///< rows of Q, K, V and dO may be read 16 bytes at a time
};

/// The view of a tensor, or an empty one where there is none.
template <class T, int Rank>
simt::GlobalTensor<T, Rank> tensor_or_none(const simt::TensorArgument& argument) {
    return argument.rank ? simt::global_tensor<T, Rank>(argument) : simt::GlobalTensor<T, Rank>();
}

/// The views of a problem whose elements are T.
template <class T>
BackwardTensors<T> backward_tensors(const BackwardArguments& a) {
    return {.Q = simt::global_tensor<const T, 4>(a.q),
            .K = simt::global_tensor<const T, 4>(a.k),
            .V = simt::global_tensor<const T, 4>(a.v),
            .O = simt::global_tensor<const T, 4>(a.out),
            .dO = simt::global_tensor<const T, 4>(a.dout),
            .LSE = simt::global_tensor<const float, 3>(a.lse),
            .dLSE = tensor_or_none<const float, 3>(a.dlse),
            .D = simt::global_tensor<float, 3>(a.d),
            .dQ_sum = tensor_or_none<float, 4>(a.dq_sum),
            .dQ = simt::global_tensor<T, 4>(a.dq),
            .dK = simt::global_tensor<T, 4>(a.dk),
            .dV = simt::global_tensor<T, 4>(a.dv),
            .scale = a.scale,
            .has_dlse = a.dlse.rank > 0,
            .vector_rows = a.q.rows_aligned_to_16_bytes() && a.k.rows_aligned_to_16_bytes() &&
                           a.v.rows_aligned_to_16_bytes() && a.dout.rows_aligned_to_16_bytes()};
}

inline constexpr int kBackwardThreads = 128;  ///< of a block

/// A block keeps two tiles of `kept` rows for good, K_j and V_j or Q_i and dO_i, and the other two come past, `passing`
/// rows at a time. Two accumulators of a thread take kept D / 64 registers; all four tiles lie in shared memory, which
/// stays below the 96 KiB of a V100 in float32.
template <int HeadDim>
struct BackwardTiles {
    static constexpr int kept = HeadDim <= 128 ? 64 : 32;                         ///< rows of the tiles that stay
    static constexpr int passing = HeadDim <= 64 ? 32 : HeadDim <= 128 ? 16 : 8;  ///< rows of those that come past
};

/// Shared memory of a block: four tiles, and P or dS.
template <class T, int HeadDim>
constexpr std::size_t backward_shared_bytes() {
    constexpr int kept = BackwardTiles<HeadDim>::kept, passing = BackwardTiles<HeadDim>::passing;
    constexpr int pitch = HeadDim + simt::kVectorWidth<T>;
    return 2 * simt::shared_bytes<T>(kept, pitch) + 2 * simt::shared_bytes<T>(passing, pitch) +
           simt::shared_bytes<float>(kept, passing + 4) + simt::shared_bytes<float>(2, passing);
}

/// The first query that sees key `key`, query_length if none does: all later ones see it, too. `key` must exist.
__host__ __device__ constexpr int first_seeing(Mask mask, int key, int query_length, int key_length) {
    if (mask == Mask::none) return 0;
    const int diagonal = mask == Mask::causal_bottom_right ? key - key_length + query_length : key;
    return diagonal < 0 ? 0 : diagonal > query_length ? query_length : diagonal;
}

/// What a kernel moves whose blocks keep B_c keys while B_r queries at a time come past. K and V once; for each key
/// tile and each query head of its group, Q, dO, LSE and D from the first query tile on that sees the key tile; dK and
/// dV once. Where blocks add to dQ, each query that sees a key of the tile, once for each.
inline GlobalBytes dkdv_bytes(const BackwardArguments& a, int B_c, int B_r) {
    const std::uint64_t kv_heads = a.batch() * a.kv_heads(), heads = a.batch() * a.query_heads();
    const std::uint64_t row = a.head_dim() * element_bytes(a.q.type);
    std::uint64_t passing = 0, adding = 0;
    for (std::int64_t first_key = 0; first_key < a.key_length(); first_key += B_c) {
        const int first = first_seeing(a.mask, int(first_key), int(a.query_length()), int(a.key_length()));
        if (first < a.query_length()) passing += a.query_length() - first / B_r * B_r;
        adding += a.query_length() - first;
    }
    return {.read = kv_heads * 2 * row * a.key_length() + heads * passing * (2 * row + 2 * sizeof(float)),
            .written = kv_heads * 2 * row * a.key_length() +
                       (a.dq_sum.rank ? heads * adding * a.head_dim() * sizeof(float) : 0)};
}

}  // namespace ladder::SIMT_MACHINE
