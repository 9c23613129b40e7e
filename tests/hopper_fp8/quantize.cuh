#pragma once

#include <algorithm>
#include <iterator>

#include "common/attention/warp_reduce.cuh"
#include "tests/hopper_fp8/block_scales.cuh"
#include "tests/hopper_fp8/hopper_fp8.h"

namespace ladder::SIMT_MACHINE {

// [B, H, S, d] of 16 or 32 bits becomes e4m3 [B, H, S, D] and one exponent for each block of rows, D >= d. With a
// rotation, each row x is first multiplied by a Hadamard matrix with random signs: a large element, an outlier, is
// spread over all columns, and no longer makes the others of its block small. Rows of Q and K rotated alike have the
// same products as before: the matrix is orthogonal. (FlashAttention-3, section 3.3.)
//
// Who does what: a block of 256 threads has `Rows` rows, each warp every eighth of them, a lane D / 32 neighbouring
// columns. So the butterflies of a row are first those within a lane, then those between lanes, by shuffles.

/// What quantize_blocks_kernel() is given.
template <class T>
struct Quantization {
    simt::GlobalTensor<const T, 4> X;         ///< [B, H, S, d]
    simt::GlobalTensor<simt::e4m3, 4> codes;  ///< [B, H, S, D]
    simt::GlobalTensor<int, 3> exponents;     ///< [B, H, blocks]
    float factor;                             ///< that all elements are multiplied by: 1, -1 or 0
    bool rotates;
    std::uint64_t signs[4];  ///< bit c % 64 of number c / 64: column c is negated before it is rotated
};

/// One row of which a lane has `Own` neighbouring columns, times the Hadamard matrix of order 32 Own, over its root.
template <int Own>
__device__ __forceinline__ void rotate_row(float (&x)[Own]) {
#pragma unroll
    for (int stride = 1; stride < Own; stride *= 2)
#pragma unroll
        for (int i = 0; i < Own; ++i)
            if ((i & stride) == 0) {
                const float a = x[i], b = x[i + stride];
                x[i] = a + b;
                x[i + stride] = a - b;
            }
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const bool upper = lane & distance;
#pragma unroll
        for (int i = 0; i < Own; ++i) {
            const float other = __shfl_xor_sync(0xffffffffu, x[i], distance);
            x[i] = upper ? other - x[i] : x[i] + other;
        }
    }
    const float norm = 1.0f / sqrtf(32.0f * Own);
#pragma unroll
    for (int i = 0; i < Own; ++i) x[i] *= norm;
}

/// grid (blocks of Rows rows, B H), 256 threads.
template <class T, int D, int Rows>
__global__ void __launch_bounds__(256) quantize_blocks_kernel(Quantization<T> q) {
    constexpr int warps = 8, own = D / 32, rows = Rows / warps;
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    const int heads = int(q.X.extent(1)), length = int(q.X.extent(2)), head_dim = int(q.X.extent(3));
    const int b = int(blockIdx.y) / heads, h = int(blockIdx.y) % heads, first = int(blockIdx.x) * Rows;

    const auto X = q.X.slice(b, h);
    const auto codes = q.codes.slice(b, h);

    simt::SharedArena arena;
    const auto largest_of_warp = arena.template tile<float, 1, warps>("largest of each warp");

    float x[rows][own], largest = 0.0f;
#pragma unroll
    for (int r = 0; r < rows; ++r) {
        const int row = first + r * warps + warp;
#pragma unroll
        for (int i = 0; i < own; ++i) {
            const int c = lane * own + i;
            x[r][i] = row < length && c < head_dim ? q.factor * float(X(row, c)) : 0.0f;
            if (q.rotates && (q.signs[c / 64] >> c % 64 & 1)) x[r][i] = -x[r][i];
        }
        if (q.rotates) rotate_row(x[r]);
#pragma unroll
        for (int i = 0; i < own; ++i)
            if (fabsf(x[r][i]) < INFINITY) largest = fmaxf(largest, fabsf(x[r][i]));
    }
    largest = max_over<32>(largest);
    if (lane == 0) largest_of_warp(0, warp) = largest;
    __syncthreads();  // each warp's largest is there before all read all
#pragma unroll
    for (int w = 0; w < warps; ++w) largest = fmaxf(largest, largest_of_warp(0, w));

    const int exponent = block_exponent(largest);
    if (threadIdx.x == 0) q.exponents(b, h, int(blockIdx.x)) = exponent;
    const float inverse = power_of_two(-exponent);
#pragma unroll
    for (int r = 0; r < rows; ++r) {
        const int row = first + r * warps + warp;
        simt::Vector<simt::e4m3, own> piece;
#pragma unroll
        for (int i = 0; i < own; ++i) {
            // What is infinite has no code: it becomes NaN, as 0 * inf is, and not the largest number.
            const float scaled = x[r][i] * inverse;
            piece.element[i] = simt::e4m3(fabsf(scaled) < INFINITY ? scaled : NAN);
        }
        if (row < length) codes.template vec<simt::Vector<simt::e4m3, own>>(row, lane * own) = piece;
    }
}

/// Which columns are negated before they are rotated: bits that were drawn once.
inline constexpr std::uint64_t kRotationSigns[4] = {0x9d3f61c85be2740a, 0x46b1e80f23d9ca57, 0xe25074bd8c1f963a,
                                                    0x1b8ac6f370549ed2};

template <class T, int D, int Rows>
void launch_quantization(const QuantizationArguments& a) {
    Quantization<T> q{.X = simt::global_tensor<const T, 4>(a.x),
                      .codes = simt::global_tensor<simt::e4m3, 4>(a.codes),
                      .exponents = simt::global_tensor<int, 3>(a.exponents),
                      .factor = a.factor,
                      .rotates = a.rotates,
                      .signs = {}};
    std::copy(std::begin(kRotationSigns), std::end(kRotationSigns), q.signs);
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(unsigned(a.exponents.extents[2]), unsigned(a.x.extents[0] * a.x.extents[1]));
    config.blockDim = dim3(256);
    config.dynamicSmemBytes = 8 * sizeof(float);
    config.stream = static_cast<cudaStream_t>(a.stream);
    simt::launch("quantize_blocks_kernel", config, quantize_blocks_kernel<T, D, Rows>, q);
}

}  // namespace ladder::SIMT_MACHINE
