#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace simt {
inline namespace cuda {

// 8-bit floating point. float8.h says what the types are.
//
// A device with Feature::fp8 converts with one instruction for two codes (PTX ISA, cvt: .e4m3x2, .e5m2x2), to float
// with one more for each. On others cuda_fp8.h computes the same bits in software, some sixty instructions for each
// code; so a kernel that only stores in 8 bits needs no feature.

using e4m3 = __nv_fp8_e4m3;  ///< 4 bits of exponent, 3 of mantissa
using e5m2 = __nv_fp8_e5m2;  ///< 5 bits of exponent, 2 of mantissa

/// One of the 8-bit types.
template <class T>
concept Float8 = std::is_same_v<T, e4m3> || std::is_same_v<T, e5m2>;

/// CUDA's name for the format of T.
template <Float8 T>
inline constexpr __nv_fp8_interpretation_t kFloat8Format = std::is_same_v<T, e4m3> ? __NV_E4M3 : __NV_E5M2;

/// Four floats in one register, as T = e4m3 or e5m2, each as T's constructor makes it: rounded to the nearest, ties to
/// even, what is too large to the largest. `x0` is in the lowest byte. So lie four neighbours of a row in memory, and
/// in a register of an 8-bit operand of `mma.sync` and `wgmma`.
template <Float8 T>
__device__ __forceinline__ std::uint32_t pack(float x0, float x1, float x2, float x3) {
    const std::uint32_t low = __nv_cvt_float2_to_fp8x2(make_float2(x0, x1), __NV_SATFINITE, kFloat8Format<T>);
    const std::uint32_t high = __nv_cvt_float2_to_fp8x2(make_float2(x2, x3), __NV_SATFINITE, kFloat8Format<T>);
    return low | high << 16;
}

/// Two codes of T = e4m3 or e5m2, the half of a register that pack() fills, as two f16 in one register: the lower code
/// in the lower half. An f16 holds every value of both types. NaN becomes 0x7fff.
template <Float8 T>
__device__ __forceinline__ std::uint32_t unpack_to_f16(std::uint16_t pair) {
    const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(pair, kFloat8Format<T>);
    std::uint32_t bits;
    std::memcpy(&bits, &halves, sizeof(bits));
    return bits;
}

/// The same as two floats: the lower code's is x.
template <Float8 T>
__device__ __forceinline__ float2 unpack(std::uint16_t pair) {
    return __half22float2(__nv_cvt_fp8x2_to_halfraw2(pair, kFloat8Format<T>));
}

}  // namespace cuda
}  // namespace simt
