#pragma once

#include "common/attention/dispatch.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/warp_reduce.cuh"
#include "common/simt/simt.h"
#include "phase8_backward/hopper_arguments.h"
#include "phase8_backward/row_piece.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// Before and after hopper_backward.cuh: what is one number for a row, or one element, for itself.
///
/// Changed since delta.cuh: a thread takes 16 bytes at a time, and what comes out suits the large kernel. LSE_i is a
/// power of 2, as exponentials are there; both numbers are there for whole tiles of queries, so that one bulk copy
/// brings a tile's. Where there is no query, LSE_i is infinite; whatever it were, hide_queries() hides such rows.
///
///   grid    x = row groups, y = Hq heads, z = B sequences
///   block   128 threads, 8, 16 or 32 neighbours to a row
///
///   global  reads O, dO, LSE (and dLSE) once; writes both numbers once, and zeros to dQ_sum (and turns). Afterwards
///           reads dQ_sum once and writes dQ once
// clang-format on

/// What these kernels are given.
template <class T>
struct BackwardRows {
    simt::GlobalTensor<const T, 4> O, dO;          ///< [B, Hq, Sq, D]
    simt::GlobalTensor<const float, 3> LSE, dLSE;  ///< [B, Hq, Sq]; dLSE is empty where there is none
    simt::GlobalTensor<float, 3> LSE2, D;          ///< [B, Hq, whole tiles of queries]
    simt::GlobalTensor<float, 4> dQ_sum;           ///< [B, Hq, Sq, D]
    simt::GlobalTensor<T, 4> dQ;                   ///< likewise
    simt::GlobalTensor<int, 3> turns;              ///< [B, Hq, tiles of queries]; empty where blocks add in no order
    float scale;                                   ///< factor on Q K^T
    bool has_dlse;                                 ///< whether there is a dLSE

    /// The views of a problem.
    explicit BackwardRows(const HopperBackwardArguments& a)
        : O(simt::global_tensor<const T, 4>(a.out)),
          dO(simt::global_tensor<const T, 4>(a.dout)),
          LSE(simt::global_tensor<const float, 3>(a.lse)),
          LSE2(simt::global_tensor<float, 3>(a.lse2)),
          D(simt::global_tensor<float, 3>(a.d)),
          dQ_sum(simt::global_tensor<float, 4>(a.dq_sum)),
          dQ(simt::global_tensor<T, 4>(a.dq)),
          scale(a.scale),
          has_dlse(a.dlse.rank > 0) {
        if (has_dlse) dLSE = simt::global_tensor<const float, 3>(a.dlse);
        if (a.turns.rank) turns = simt::global_tensor<int, 3>(a.turns);
    }
};

template <class T, int HeadDim>
__global__ void __launch_bounds__(kRowThreads) hopper_rows_kernel(BackwardRows<T> p) {
    using Piece = RowPiece<HeadDim>;
    using Wide = simt::WideVector<T>;
    const Piece piece;
    const int b = int(blockIdx.z), h = int(blockIdx.y);
    const auto O = p.O.slice(b, h), dO = p.dO.slice(b, h);
    const bool exists = piece.row < int(O.extent(0));
    float sum = 0.0f;
    if (exists && piece.column < int(O.extent(1))) {
        const Wide o = O.template vec<Wide>(piece.row, piece.column),
                   d = dO.template vec<Wide>(piece.row, piece.column);
#pragma unroll
        for (int e = 0; e < 8; ++e) sum += float(o.element[e]) * float(d.element[e]);
        const auto dQ_sum = p.dQ_sum.slice(b, h);
#pragma unroll
        for (int half = 0; half < 2; ++half)
            dQ_sum.template vec<float4>(piece.row, piece.column + 4 * half) = float4{0.0f, 0.0f, 0.0f, 0.0f};
    }
    sum = sum_over<Piece::lanes>(sum);
    if (piece.column > 0 || piece.row >= int(p.D.extent(2))) return;
    p.D(b, h, piece.row) = exists && p.has_dlse ? sum - p.dLSE(b, h, piece.row) : sum;
    p.LSE2(b, h, piece.row) = exists ? p.LSE(b, h, piece.row) * kLog2E : INFINITY;
    const int turns = int(p.turns.extent(2));
    if (turns > 0 && piece.row % (int(p.D.extent(2)) / turns) == 0)
        p.turns(b, h, piece.row / (int(p.D.extent(2)) / turns)) = 0;
}

/// dQ = scale dQ_sum, rounded, once all blocks have added to it.
template <class T, int HeadDim>
__global__ void __launch_bounds__(kRowThreads) hopper_round_kernel(BackwardRows<T> p) {
    using Wide = simt::WideVector<T>;
    const RowPiece<HeadDim> piece;
    const int b = int(blockIdx.z), h = int(blockIdx.y);
    const auto dQ = p.dQ.slice(b, h);
    const auto dQ_sum = p.dQ_sum.slice(b, h);
    if (piece.row >= int(dQ.extent(0)) || piece.column >= int(dQ.extent(1))) return;
    Wide rounded;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float4 x = dQ_sum.template vec<float4>(piece.row, piece.column + 4 * half);
        rounded.element[4 * half] = T(p.scale * x.x);
        rounded.element[4 * half + 1] = T(p.scale * x.y);
        rounded.element[4 * half + 2] = T(p.scale * x.z);
        rounded.element[4 * half + 3] = T(p.scale * x.w);
    }
    dQ.template vec<Wide>(piece.row, piece.column) = rounded;
}

}  // namespace ladder::SIMT_MACHINE
