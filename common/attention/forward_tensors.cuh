#pragma once

#include "common/attention/arguments.h"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// What a forward kernel is given: the views of one attention problem.
template <class T>
struct ForwardTensors {
    simt::GlobalTensor<const T, 4> Q;  ///< [B, Hq, Sq, D]
    simt::GlobalTensor<const T, 4> K;  ///< [B, Hkv, Sk, D]
    simt::GlobalTensor<const T, 4> V;  ///< [B, Hkv, Sk, D]
    simt::GlobalTensor<T, 4> O;        ///< [B, Hq, Sq, D]
    simt::GlobalTensor<float, 3> LSE;  ///< [B, Hq, Sq]
    float scale;                       ///< factor on Q K^T
    bool vector_rows;                  ///< rows of Q, K and V may be read 16 bytes at a time

    /// Grouped heads: Hq / Hkv neighbouring query heads read the same keys and values.
    __device__ int kv_head(int query_head) const { return query_head / int(Q.extent(1) / K.extent(1)); }
};

/// The views of a problem whose elements are T, as the launch functions hand them to a kernel.
template <class T>
ForwardTensors<T> forward_tensors(const AttentionArguments& a) {
    return {.Q = simt::global_tensor<const T, 4>(a.q),
            .K = simt::global_tensor<const T, 4>(a.k),
            .V = simt::global_tensor<const T, 4>(a.v),
            .O = simt::global_tensor<T, 4>(a.out),
            .LSE = simt::global_tensor<float, 3>(a.lse),
            .scale = a.scale,
            .vector_rows =
                a.q.rows_aligned_to_16_bytes() && a.k.rows_aligned_to_16_bytes() && a.v.rows_aligned_to_16_bytes()};
}

}  // namespace ladder::SIMT_MACHINE
