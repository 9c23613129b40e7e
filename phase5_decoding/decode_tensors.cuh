#pragma once

#include "common/simt/simt.h"
#include "phase5_decoding/decode_arguments.h"

namespace ladder::SIMT_MACHINE {

/// What a decoding kernel is given.
template <class T>
struct DecodeTensors {
    simt::GlobalTensor<const T, 4> Q;             ///< [B, Hq, Sq, D]
    simt::GlobalTensor<const T, 4> K;             ///< [B, Hkv, Smax, D]
    simt::GlobalTensor<const T, 4> V;             ///< [B, Hkv, Smax, D]
    simt::GlobalTensor<const int, 1> kv_lengths;  ///< [B], where has_lengths
    simt::GlobalTensor<T, 2> O;                   ///< [N, D], N = B Hq Sq: written where splits == 1
    simt::GlobalTensor<float, 1> LSE;             ///< [N], likewise
    simt::GlobalTensor<float, 3> O_part;          ///< [splits, N, D]: written where splits > 1
    simt::GlobalTensor<float, 2> LSE_part;        ///< [splits, N], likewise
    int group;                                    ///< query heads that share a KV head
    int queries;                                  ///< Sq
    int splits;                                   ///< pieces that the keys of a sequence are cut into
    float scale;                                  ///< factor on Q K^T
    bool causal;                                  ///< bottom-right: the last query sees the last key of its sequence
    bool has_lengths;                             ///< otherwise every sequence fills the cache
    bool vector_rows;                             ///< rows of K and V may be read 16 bytes at a time

    /// How many keys, counted from the first, a query sees.
    __device__ int visible_keys(int b, int query) const {
        int length = int(K.extent(2));
        if (has_lengths) length = kv_lengths(b);
        if (!causal) return length;
        const int hidden = queries - 1 - query;  // keys that only later queries see
        return length > hidden ? length - hidden : 0;
    }

    /// Where the result of row `row`, of those that read one KV head, stands in O and LSE.
    __device__ __forceinline__ std::int64_t result_row(int b, int kv_head, int row) const {
        return std::int64_t(b * K.extent(1) * group + kv_head * group + row % group) * queries + row / group;
    }
};

/// The views of a problem whose elements are T, as the launch functions hand them to a kernel.
template <class T>
DecodeTensors<T> decode_tensors(const DecodeArguments& a) {
    return {.Q = simt::global_tensor<const T, 4>(a.q),
            .K = simt::global_tensor<const T, 4>(a.k),
            .V = simt::global_tensor<const T, 4>(a.v),
            .kv_lengths = simt::global_tensor<const int, 1>(a.kv_lengths),
            .O = simt::global_tensor<T, 2>(a.out),
            .LSE = simt::global_tensor<float, 1>(a.lse),
            .O_part = simt::global_tensor<float, 3>(a.out_parts),
            .LSE_part = simt::global_tensor<float, 2>(a.lse_parts),
            .group = int(a.group()),
            .queries = int(a.query_length()),
            .splits = a.splits,
            .scale = a.scale,
            .causal = a.mask == Mask::causal_bottom_right,
            .has_lengths = a.kv_lengths.rank > 0,
            .vector_rows = a.k.rows_aligned_to_16_bytes() && a.v.rows_aligned_to_16_bytes()};
}

}  // namespace ladder::SIMT_MACHINE
