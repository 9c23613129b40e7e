#pragma once

#include <optional>
#include <vector>

#include "common/attention/gradients.h"
#include "common/attention/options.h"
#include "phase9_ring/blocks.h"
#include "phase9_ring/merge.h"

namespace ladder {

/// K and V of a part of the sequence, or their gradients.
struct KeysAndValues {
    torch::Tensor k;  ///< [B, Hkv, S, D]
    torch::Tensor v;  ///< likewise
};

/// What a backward pass has of its own queries, whoever's keys it works on.
struct LossOfQueries {
    torch::Tensor dout;                 ///< [B, Hq, Sq_r, D]
    std::optional<torch::Tensor> dlse;  ///< [B, Hq, Sq_r]; absent where the loss does not look at lse
    torch::Tensor q;                    ///< [B, Hq, Sq_r, D]
    torch::Tensor out;                  ///< of all keys, likewise
    torch::Tensor lse;                  ///< of all keys, [B, Hq, Sq_r]
};

/// Adds to `so_far` what the queries have of these keys, block by block, with attention()'s best kernel.
void add_attention(SoFar& so_far, const torch::Tensor& q, const KeysAndValues& keys, const std::vector<Block>& blocks,
                   const std::optional<double>& scale);

/// What each block of queries and keys has to do with the loss. The weights come from the lse over all keys: each
/// block's gradients are those of the whole, and need only be added up.
std::vector<AttentionGradients> gradients_of(const LossOfQueries& loss, const KeysAndValues& keys,
                                             const std::vector<Block>& blocks, const std::optional<double>& scale);

/// Adds the gradients of these blocks to dq [B, Hq, Sq_r, D], in float32.
void add_query_gradients(const torch::Tensor& dq, const std::vector<Block>& blocks,
                         const std::vector<AttentionGradients>& of_blocks);

/// Likewise to dK and dV.
void add_key_gradients(const KeysAndValues& d_keys, const std::vector<Block>& blocks,
                       const std::vector<AttentionGradients>& of_blocks);

}  // namespace ladder
