#pragma once

#include "common/attention/online_softmax.cuh"
#include "common/attention/warp_reduce.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// A float sum of thousands of terms, one after the other, loses its last digits: each addition rounds to a digit of
/// the large sum. So parts of 64 terms are added up, and then the parts.
inline constexpr int kTermsPerPart = 64;

/// What softmax has to remember of some scores x_j, however many there were:
///
///   m = max_j x_j          l = sum_j exp(x_j - m)
///
/// No scores at all are (-inf, 0), a single score x is (x, 1). Two states of two sets of scores merge into the state of
/// both sets together (Milakov and Gimelshein 2018, section 3.1).
struct SoftmaxState {
    float m = -INFINITY;  ///< the maximum
    float l = 0.0f;       ///< the sum, relative to it
};

/// Each sum is worth exp(its m - the common m) under the common maximum.
///
/// Associative and commutative, up to rounding, with the default SoftmaxState as identity: a row may be cut anywhere,
/// its pieces worked on in any order by anyone, and merged in any tree.
///
/// Where a score is +inf, m and l become +inf; a NaN shows in l, since fmaxf passes over it.
__device__ inline SoftmaxState merge(SoftmaxState a, SoftmaxState b) {
    // BEGIN SOLUTION merge: the maximum of both, and both sums under it
    const float m = fmaxf(a.m, b.m), base = safe_maximum(m);
    return {m, a.l * __expf(a.m - base) + b.l * __expf(b.m - base)};
    //= return {};
    // END SOLUTION merge
}

/// The state of all 32 lanes together. Every lane of the warp must call, and every lane gets the result.
///
/// As merge, with 32 states at once: under one common maximum each lane has a single sum to rescale, where five rounds
/// of merge would rescale ten.
__device__ inline SoftmaxState merge_across_warp(SoftmaxState mine) {
    const float m = warp_max(mine.m);
    // __fmul_rn: a product that stays one. In a lane where it were fused into the first addition, as a GPU's compiler
    // likes to do, the sum would end in another bit than elsewhere, and equal scores would get unequal weights.
    return {m, warp_sum(__fmul_rn(mine.l, __expf(mine.m - safe_maximum(m))))};
}

/// The state of a block of `Warps` warps. Every thread must call, and every thread gets the result. `states` is shared
/// memory that nobody else uses.
template <int Warps>
__device__ SoftmaxState merge_across_block(SoftmaxState mine, const simt::SharedTile<SoftmaxState, 1, Warps>& states) {
    static_assert(Warps <= 32, "a warp merges all states at once, one in each lane");
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    // BEGIN SOLUTION merge_across_block: each warp leaves one state; all of them make the state of the row
    mine = merge_across_warp(mine);
    if constexpr (Warps == 1) return mine;
    if (lane == 0) states(0, warp) = mine;
    __syncthreads();  // every warp has left its state before any warp reads them all

    SoftmaxState of_warp;
    if (lane < Warps) of_warp = states(0, lane);
    return merge_across_warp(of_warp);
    //= return mine;
    // END SOLUTION merge_across_block
}

/// e^x as one multiplication and the special function unit's 2^x; 0 where the result would be below 2^-126. __expf()
/// takes three more instructions to get those right, too.
__device__ __forceinline__ float fast_exp(float x) { return simt::fast_exp2(x * kLog2E); }

/// The last pass: what a score is worth, once the state of its whole row is known: exp(x - m) / l.
class SoftmaxWeight {
  public:
    /// A row that holds +inf has no softmax: all its weights are NaN. So are those of a row that holds only -inf, since
    /// 0 * (1 / 0) is NaN without our help.
    __device__ explicit SoftmaxWeight(SoftmaxState row)
        : base_(safe_maximum(row.m)), inverse_sum_(row.m == INFINITY ? NAN : 1.0f / row.l) {}

    /// The weight of the score x.
    __device__ float operator()(float x) const { return fast_exp(x - base_) * inverse_sum_; }

  private:
    float base_, inverse_sum_;
};

}  // namespace ladder::SIMT_MACHINE
