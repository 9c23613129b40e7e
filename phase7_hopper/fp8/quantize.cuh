#pragma once

#include <algorithm>
#include <iterator>

#include "common/attention/dispatch.cuh"
#include "common/attention/warp_reduce.cuh"
#include "phase7_hopper/fp8/block_scales.cuh"
#include "phase7_hopper/fp8/compiled_codes.cuh"
#include "phase7_hopper/fp8/fp8_arguments.h"

namespace ladder::SIMT_MACHINE {

// [B, H, S, d] of 16 bits becomes codes [B, H, S, D] of 8 and one exponent for each block of rows, D >= d.
//
//   rotary     x_2i, x_2i+1 are turned by the angle of their position first, where a table of angles is given
//   rotation   the row is multiplied by a Hadamard matrix with random signs: a large element, an outlier, is spread
//              over all columns, and no longer makes the others of its block small. Rows of Q and K rotated alike have
//              the same products as before, since the matrix is orthogonal. (FlashAttention-3, section 3.3.)
//   scale      the largest element of the block decides on its exponent
//   rounding   to the nearest code
//
// All of it happens in registers, between one read of the tensor and one write of a tensor half its size. So neither
// rotation costs more than its instructions, in a kernel that waits for memory.
//
//   grid    x = blocks of `Rows` rows, of all heads
//   block   256 threads: each warp has every eighth row, a lane D / 32 neighbouring columns of it. So the butterflies
//           of a row are first those within a lane, then those between lanes, by shuffles.
//
//   shared  the largest element of each warp    8 floats

/// What quantize_blocks_kernel() is given.
template <class T, class Code>
struct Quantization {
    simt::GlobalTensor<const T, 4> X;            ///< [B, H, S, d]
    simt::GlobalTensor<Code, 4> codes;           ///< [B, H, S, D]
    simt::GlobalTensor<int, 3> exponents;        ///< [B, H, blocks]
    simt::GlobalTensor<const float, 2> cosines;  ///< [positions, d / 2]
    simt::GlobalTensor<const float, 2> sines;    ///< [positions, d / 2]
    bool is_rotary;                              ///< there are cosines and sines
    bool rotates;                                ///< by the Hadamard matrix
    int first_position;                          ///< of row 0, in the table of angles
    int smallest_exponent;                       ///< of a block
    float factor;                                ///< that all elements are multiplied by: 1, -1 or 0
    std::uint64_t signs[4];  ///< bit c % 64 of number c / 64: column c is negated before it is rotated
};

/// Neighbouring columns, turned by the angles of a position (Su et al. 2021, RoFormer, equation 34).
template <int Own>
__device__ __forceinline__ void turn_row(float (&x)[Own], const simt::GlobalTensor<const float, 2>& cosines,
                                         const simt::GlobalTensor<const float, 2>& sines, int position,
                                         int first_column, int head_dim) {
#pragma unroll
    for (int i = 0; i < Own; i += 2) {
        if (first_column + i >= head_dim) break;
        const int pair = (first_column + i) / 2;
        const float cosine = cosines(position, pair), sine = sines(position, pair), a = x[i], b = x[i + 1];
        x[i] = a * cosine - b * sine;
        x[i + 1] = a * sine + b * cosine;
    }
}

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

/// See above.
template <class T, class Code, int D, int Rows>
__global__ void __launch_bounds__(256) quantize_blocks_kernel(Quantization<T, Code> q) {
    constexpr int warps = 8, own = D / 32, rows = Rows / warps;
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    const int heads = int(q.X.extent(1)), length = int(q.X.extent(2)), head_dim = int(q.X.extent(3));
    const int blocks = int(q.exponents.extent(2)), head = int(blockIdx.x) / blocks, block = int(blockIdx.x) % blocks;
    const int b = head / heads, h = head % heads, first = block * Rows;

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
        }
        if (q.is_rotary && row < length)
            turn_row(x[r], q.cosines, q.sines, q.first_position + row, lane * own, head_dim);
        if (q.rotates) {
#pragma unroll
            for (int i = 0; i < own; ++i) {
                const int c = lane * own + i;
                if (q.signs[c / 64] >> c % 64 & 1) x[r][i] = -x[r][i];
            }
            rotate_row(x[r]);
        }
#pragma unroll
        for (int i = 0; i < own; ++i)
            if (fabsf(x[r][i]) < INFINITY) largest = fmaxf(largest, fabsf(x[r][i]));
    }
    largest = max_over<32>(largest);
    if (lane == 0) largest_of_warp(0, warp) = largest;
    __syncthreads();  // each warp's largest is there before all read all
#pragma unroll
    for (int w = 0; w < warps; ++w) largest = fmaxf(largest, largest_of_warp(0, w));

    const int exponent = block_exponent<Code>(largest, q.smallest_exponent);
    if (threadIdx.x == 0) q.exponents(b, h, block) = exponent;
    const float inverse = power_of_two(-exponent);
#pragma unroll
    for (int r = 0; r < rows; ++r) {
        const int row = first + r * warps + warp;
        simt::Vector<Code, own> piece;
#pragma unroll
        for (int i = 0; i < own; ++i) {
            // What is infinite has no code: it becomes NaN, as 0 * inf is, and not the largest number.
            const float scaled = x[r][i] * inverse;
            piece.element[i] = Code(fabsf(scaled) < INFINITY ? scaled : NAN);
        }
        if (row < length) codes.template vec<simt::Vector<Code, own>>(row, lane * own) = piece;
    }
}

/// Which columns are negated before they are rotated: bits that were drawn once.
inline constexpr std::uint64_t kRotationSigns[4] = {0x9d3f61c85be2740a, 0x46b1e80f23d9ca57, 0xe25074bd8c1f963a,
                                                    0x1b8ac6f370549ed2};

template <class T, class Code, int D, int Rows>
void launch_quantization(const QuantizationArguments& a) {
    const bool is_rotary = a.cosines.rank > 0;
    Quantization<T, Code> q{.X = simt::global_tensor<const T, 4>(a.x),
                            .codes = simt::global_tensor<Code, 4>(a.codes),
                            .exponents = simt::global_tensor<int, 3>(a.exponents),
                            .cosines = {},
                            .sines = {},
                            .is_rotary = is_rotary,
                            .rotates = a.rotates,
                            .first_position = a.first_position,
                            .smallest_exponent = a.smallest_exponent,
                            .factor = a.factor,
                            .signs = {}};
    if (is_rotary) {
        q.cosines = simt::global_tensor<const float, 2>(a.cosines);
        q.sines = simt::global_tensor<const float, 2>(a.sines);
    }
    std::copy(std::begin(kRotationSigns), std::end(kRotationSigns), q.signs);
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(unsigned(a.exponents.extents[0] * a.exponents.extents[1] * a.exponents.extents[2]));
    config.blockDim = dim3(256);
    config.dynamicSmemBytes = 8 * sizeof(float);
    config.stream = static_cast<cudaStream_t>(a.stream);
    simt::launch("quantize_blocks_kernel", config, quantize_blocks_kernel<T, Code, D, Rows>, q);
}

/// Launches the kernel for the tensor's type and columns and the type of its codes.
void launch_fp8_quantization(const QuantizationArguments& a) {
    with_element_type_of(MmaElements(), a.x.type, [&]<class T>(std::type_identity<T>) {
        with_element_type_of(Fp8Elements(), a.codes.type, [&]<class Code>(std::type_identity<Code>) {
            with_first_that_holds(Fp8HeadDims(), a.codes.extents[3], [&]<int D>(std::integral_constant<int, D>) {
                if (a.block_rows == kQueryBlock)
                    launch_quantization<T, Code, D, kQueryBlock>(a);
                else
                    launch_quantization<T, Code, D, kKeyBlock>(a);
            });
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
