#pragma once

#include <cstdint>
#include <optional>

#include "common/attention/arguments.h"
#include "common/attention/options.h"

namespace ladder {

/// The codes that values and weights are kept in. Queries and keys are always in e4m3.
enum class ValueCodes {
    e4m3,  ///< 4 bits of exponent, 3 of mantissa
    e5m2,  ///< 5 and 2: a larger range, half the accuracy
};

/// A rotary embedding: columns 2 i and 2 i + 1 of the row at position t are turned by an angle (Su et al. 2021).
struct Rotary {
    torch::Tensor cosines;         ///< [positions, D / 2], float32: of angle i at position t
    torch::Tensor sines;           ///< the same
    std::int64_t first_query = 0;  ///< position of the first query; that of the first key is 0
};

/// How 16-bit tensors become 8-bit ones.
struct Fp8Options {
    bool rotated = true;                   ///< Q and K by a Hadamard matrix with random signs: outliers are spread
    ValueCodes values = ValueCodes::e4m3;  ///< of V, and of the weights
    std::optional<Rotary> rotary = {};     ///< of Q and K, before they are rotated
};

/// Q, K and V in 8 bits: codes, and an exponent for each block of rows; a number is its code times 2^exponent. D is
/// filled up with zeros to 64, 128 or 256.
struct Fp8Operands {
    torch::Tensor q, k, v;                                ///< uint8 [B, Hq, Sq, D], [B, Hkv, Sk, D] twice
    torch::Tensor q_exponents, k_exponents, v_exponents;  ///< int32 [B, H, blocks]: of 64 rows of Q, of 128 of K and V
    std::int64_t head_dim = 0;                            ///< D as it was given
    torch::ScalarType dtype = torch::kBFloat16;           ///< of the tensors as they were given, and of O
    ValueCodes values = ValueCodes::e4m3;                 ///< of V
    double scale = 0.0;                                   ///< factor on the scores; its sign is in the codes of Q
};

/// Quantizes q, k and v, as hopper_fp8_forward() does and with the same errors. A block's exponent is the smallest
/// under which its largest finite element fits the codes, from -60 on for q and k and from -100 on for v. What is
/// infinite becomes NaN; if the rows are rotated, all of its row does.
Fp8Operands quantize_to_8_bits(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const AttentionOptions& options = {}, const Fp8Options& how = {});

/// FlashAttention-3 in 8 bits, forward, on operands that have been quantized before, as those of a cache are: O [B, Hq,
/// Sq, D] in the dtype that the tensors had, and LSE. Throws std::runtime_error for a device without wgmma.
AttentionResult hopper_fp8_attention(const Fp8Operands& operands, Mask mask = Mask::none);

/// FlashAttention-3 in 8 bits, forward (Shah et al. 2024, section 3.3): softmax(scale Q K^T + mask) V of tensors that
/// are quantized on the way, with the log-sum-exp of each row.
///
///   q             [B, Hq, Sq, D]    float16 or bfloat16; D <= 256; last dimension contiguous
///   k, v          [B, Hkv, Sk, D]   Hq a multiple of Hkv; Sq and Sk may differ either way
///   options.mask  none, causal_bottom_right or causal_top_left; rows that see no key give out 0, lse -inf
///
/// Numbers should be finite. A query that is not gives NaN, and so does a key to each row that sees it. An element of V
/// gives NaN to its column of each row that sees its key, and may do so to other rows whose tile of queries visits its
/// tile of keys. The phase's chapter has what 8 bits cost in accuracy.
///
/// Runs on the device that holds the tensors. Throws std::invalid_argument on bad input, and std::runtime_error for a
/// device without wgmma, before anything is launched; on other devices there is phase 6, in 16 bits.
AttentionResult hopper_fp8_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const AttentionOptions& options = {}, const Fp8Options& how = {});

/// What hopper_fp8_attention() moves between its kernel and global memory for tensors of these shapes.
GlobalBytes hopper_fp8_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             const AttentionOptions& options = {});

/// What hopper_fp8_forward() moves: that, and what makes codes of the tensors reads and writes.
GlobalBytes hopper_fp8_forward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options = {}, const Fp8Options& how = {});

}  // namespace ladder
