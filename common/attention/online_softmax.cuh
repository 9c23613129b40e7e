#pragma once

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

// Softmax of scores that are not known all at once. Of those so far one remembers
//
//   m = max_j s_j      l = sum_j exp(s_j - m)      O = sum_j exp(s_j - m) v_j
//
// and two rules suffice: what one score counts for under a maximum (safe_maximum), and what sums that were made under
// one maximum count for under another (merge_weight).

inline constexpr float kLog2E = 1.4426950408889634f;  ///< e^x = 2^(x log2 e)
inline constexpr float kLn2 = 0.6931471805599453f;    ///< ln x = ln 2 log2 x

/// The number to subtract from scores whose running maximum is `m`: m itself, or 0 where m is infinite, so that
/// inf - inf is never computed. With 0, a row that has seen only -inf keeps its sums at exp(-inf) = 0, and a score of
/// +inf makes the sum infinite: the row becomes inf / inf = NaN and its log-sum-exp +inf, as softmax has it.
__device__ inline float safe_maximum(float m) { return fabsf(m) == INFINITY ? 0.0f : m; }

/// What sums under the maximum `part` count for under the maximum `whole`, of which theirs is one: as the exponent of
/// whatever base the scores are exponents of.
///
/// Equality is asked first, so that inf - inf is never computed, and so that a sum whose maximum stays is left as it
/// is: an infinite maximum need not have an infinite sum everywhere (a lane's part of l may be 0 where another's is
/// infinite, and 0 * inf would be NaN), and where all parts are -inf each counts once, and the 0 or NaN in them stays.
__device__ __forceinline__ float merge_exponent(float part, float whole) { return part == whole ? 0.0f : part - whole; }

/// exp(part - whole). The same rule serves a row's old and new sums, the warps of a block (by their m), and the splits
/// of a row or the pieces that several devices have of it (by their LSE).
__device__ __forceinline__ float merge_weight(float part, float whole) { return __expf(merge_exponent(part, whole)); }

/// What a part of a row counts for beside others: O_p, already divided by its own sum, and `part`, the logarithm of
/// that sum; `largest` is the largest of these logarithms. With it
///
///   s = sum_p exp(part_p - largest)      O = sum_p exp(part_p - largest) O_p / s      LSE = largest + log s
///
/// The O of a part that saw nothing that counts may be NaN (0 / 0); 0 * NaN would be NaN, so it is left out where
/// others count. (Left out with it: the NaN of 0 * inf, where a part has only scores of -inf and V is infinite. One
/// part alone keeps it.)
struct Share {
    float weight;  ///< exp(part - largest)
    bool counts;   ///< whether its x is looked at

    /// The share of a part whose sum has the logarithm `part`, where the largest such logarithm is `largest`.
    __device__ Share(float part, float largest)
        : weight(merge_weight(part, largest)), counts(part != -INFINITY || largest == -INFINITY) {}

    /// What x, a sum of the part's, adds to that of the whole.
    __device__ float of(float x) const { return counts ? weight * x : 0.0f; }
};

/// scale = sign * magnitude with a magnitude above 0. The sign goes into Q_i, where it costs no rounding, so that the
/// largest score is also the largest before the magnitude is multiplied into it; and so that no score, not even -inf,
/// meets a factor of 0.
struct SignedScale {
    float sign;       ///< -1, 0 or 1
    float magnitude;  ///< above 0
    float exponent;   ///< exp(magnitude s) = 2^(exponent s)

    /// Parts `scale`.
    __device__ explicit SignedScale(float scale)
        : sign(scale > 0.0f   ? 1.0f
               : scale < 0.0f ? -1.0f
                              : 0.0f),
          magnitude(scale == 0.0f ? 1.0f : fabsf(scale)),
          exponent(magnitude * kLog2E) {}
};

}  // namespace ladder::SIMT_MACHINE
