#pragma once

#include "common/attention/warp_reduce.cuh"
#include "phase8_backward/backward_tensors.cuh"
#include "phase8_backward/mma_dq_sum.cuh"
#include "phase8_backward/row_piece.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// Before and after mma_dkdv.cuh: D_i of each row, and dQ of what blocks have added up.
///
/// Changed since delta.cuh: a thread takes eight neighbouring columns, 16 bytes, where rows are `vectorized` (as
/// copy_tile has it). These kernels only move numbers, so wide accesses are all that there is to gain.
///
///   grid    x = row groups (D_i), or query tiles of mma_dkdv.cuh (dQ), y = Hq heads, z = B sequences
///   block   128 threads, 8, 16 or 32 neighbours to a row; or as many as that kernel has
///
///   global  before, reads O, dO (and dLSE) once, and writes D once; afterwards, reads dQ_sum once and writes dQ once
// clang-format on

/// Eight elements of a row from a column on, zeros beyond its end.
template <class T>
__device__ __forceinline__ simt::WideVector<T> read_piece(const simt::GlobalTensor<const T, 2>& matrix, int row,
                                                          int column, bool vectorized) {
    const int width = int(matrix.extent(1));
    simt::WideVector<T> piece{};
    if (vectorized) {
        if (column < width) piece = matrix.template vec<simt::WideVector<T>>(row, column);
    } else {
#pragma unroll
        for (int e = 0; e < 8; ++e)
            if (column + e < width) piece.element[e] = matrix(row, column + e);
    }
    return piece;
}

/// D_i = rowsum(dO_i o O_i) - dLSE_i
template <class T, int HeadDim>
__global__ void __launch_bounds__(kRowThreads) mma_delta_kernel(BackwardTensors<T> t, bool vectorized) {
    using Piece = RowPiece<HeadDim>;
    const Piece piece;
    const int b = blockIdx.z, h = blockIdx.y;
    const auto O = t.O.slice(b, h), dO = t.dO.slice(b, h);
    const bool exists = piece.row < int(O.extent(0));
    float sum = 0.0f;
    if (exists) {
        const simt::WideVector<T> o = read_piece(O, piece.row, piece.column, vectorized),
                                  d = read_piece(dO, piece.row, piece.column, vectorized);
#pragma unroll
        for (int e = 0; e < 8; ++e) sum += float(o.element[e]) * float(d.element[e]);
    }
    sum = sum_over<Piece::lanes>(sum);
    if (exists && piece.column == 0) t.D(b, h, piece.row) = t.has_dlse ? sum - t.dLSE(b, h, piece.row) : sum;
}

/// dQ = scale dQ_sum, rounded to 16 bits.
template <class T, class Shape>
__global__ void __launch_bounds__(Shape::threads) mma_round_kernel(BackwardTensors<T> t, bool vectorized) {
    using Sums = simt::Vector<float, 4>;
    constexpr int per_row = Shape::D / 8;
    const auto dQ = t.dQ.slice(blockIdx.z, blockIdx.y);
    const auto dQ_sum = t.dQ_sum.slice(blockIdx.z, blockIdx.y);
    const int width = int(dQ.extent(1));
#pragma unroll
    for (int i = threadIdx.x; i < Shape::B_r * per_row; i += Shape::threads) {
        const int row = i / per_row, column = i % per_row * 8, query = blockIdx.x * Shape::B_r + row;
        if (query >= int(dQ.extent(0)) || column >= width) continue;
        const int place = DqShare<Shape>::place_of_eight(row, column);
        const Sums even = dQ_sum.template vec<Sums>(blockIdx.x, place);
        const Sums odd = dQ_sum.template vec<Sums>(blockIdx.x, place + 32);
        simt::WideVector<T> rounded;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            rounded.element[2 * n] = T(t.scale * even.element[n]);
            rounded.element[2 * n + 1] = T(t.scale * odd.element[n]);
        }
        if (vectorized) {
            dQ.template vec<simt::WideVector<T>>(query, column) = rounded;
        } else {
#pragma unroll
            for (int e = 0; e < 8; ++e)
                if (column + e < width) dQ(query, column + e) = rounded.element[e];
        }
    }
}

/// O and dO once, and dLSE where there is one; D once.
GlobalBytes mma_delta_bytes(const BackwardArguments& a) {
    const std::uint64_t rows = a.batch() * a.query_heads() * a.query_length();
    return {.read = rows * (2 * a.head_dim() * element_bytes(a.q.type) + (a.dlse.rank ? sizeof(float) : 0)),
            .written = rows * sizeof(float)};
}

/// The sums of dQ's elements, in 32 bits and by eights, and dQ once.
GlobalBytes mma_round_bytes(const BackwardArguments& a) {
    const std::uint64_t rows = a.batch() * a.query_heads() * a.query_length();
    return {.read = rows * ceil_div(a.head_dim(), 8) * 8 * sizeof(float),
            .written = rows * a.head_dim() * element_bytes(a.q.type)};
}

/// Launches the kernel that comes before the large ones.
void launch_mma_delta(const BackwardArguments& a) {
    with_element_type_of(MmaElements(), a.q.type, [&]<class T>(std::type_identity<T>) {
        with_mma_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(ceil_div(a.query_length(), RowPiece<D>::rows), a.query_heads(), a.batch());
            config.blockDim = dim3(kRowThreads);
            config.stream = static_cast<cudaStream_t>(a.stream);
            const bool vectorized = a.out.rows_aligned_to_16_bytes() && a.dout.rows_aligned_to_16_bytes();
            simt::launch("mma_delta_kernel", config, mma_delta_kernel<T, D>, backward_tensors<T>(a), vectorized);
        });
    });
}

/// Launches the kernel that comes after mma_dkdv_kernel where blocks have added to dq_sum.
void launch_mma_round(const BackwardArguments& a) {
    with_element_type_of(MmaElements(), a.q.type, [&]<class T>(std::type_identity<T>) {
        with_mma_dkdv_shape(a, [&]<class Shape>(Shape) {
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(ceil_div(a.query_length(), Shape::B_r), a.query_heads(), a.batch());
            config.blockDim = dim3(Shape::threads);
            config.stream = static_cast<cudaStream_t>(a.stream);
            simt::launch("mma_round_kernel", config, mma_round_kernel<T, Shape>, backward_tensors<T>(a),
                         a.dq.rows_aligned_to_16_bytes());
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
