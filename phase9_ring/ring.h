#pragma once

#include <cstdint>

#include "common/attention/options.h"
#include "common/distributed/group.h"
#include "phase9_ring/parts.h"

namespace ladder {

/// What a call may ask for besides q, k and v.
struct RingOptions {
    AttentionOptions attention = {};  ///< scale, and the mask of the whole sequence: any of the three
    Parts parts = Parts::contiguous;  ///< how the sequence was cut; zigzag shares out the work of a causal mask
    bool overlap = true;              ///< tensors travel while the ranks compute; false: before they do, to compare
};

/// Ring attention (Liu, Zaharia, Abbeel 2023): attention over a sequence that is cut over the ranks of a group. Each
/// keeps its queries. Keys and values go round, from each rank to the next, and what they add to a query's result is
/// merged by their log-sum-exp.
///
///   q     [B, Hq, Sq_r, D]   float32, float16 or bfloat16: rank r's part of the queries, see cut_sequence(); D <= 256
///   k, v  [B, Hkv, Sk_r, D]  likewise of the keys; Hq a multiple of Hkv; parts may be empty
///
/// Returns out [B, Hq, Sq_r, D], dtype of q, and lse [B, Hq, Sq_r] float32, of this rank's queries over all keys. A row
/// that sees no key has out 0 and lse -inf. Autograd follows out and lse; in the backward pass the gradients of K and V
/// go round with them, so that all ranks must run it. There is no second derivative.
///
/// Whatever the number of ranks, a rank holds two parts of K and V besides its own (in the backward pass: and three of
/// their gradients in float32). Each rank sends its neighbour what ring_bytes() in sent_bytes.h says.
///
/// All ranks must call it together. Throws std::invalid_argument on bad input, and distributed::RankError on all ranks
/// where one is given another shape, dtype, mask or scale, ends, or hangs.
AttentionResult ring_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const distributed::Group& group, const RingOptions& options = {});

}  // namespace ladder
