#pragma once

#include "common/distributed/group.h"
#include "phase9_ring/ring.h"

namespace ladder {

// Two other ways to share out attention over a sequence. Both compute what ring_attention() computes, from the same
// parts, and throw what it throws. Autograd follows them; there, too, all ranks must run the backward pass.

/// Gathers all keys and values on every rank, and then needs nobody ("context parallel" with an all-gather). One
/// message instead of R - 1, no merging; but each rank holds all of K and V, and nothing is computed while they come.
AttentionResult gathered_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const distributed::Group& group, const RingOptions& options = {});

/// DeepSpeed-Ulysses (Jacobs et al. 2023): exchanges parts of the sequence for heads, computes whole sequences of
/// Hq / R heads, and changes back. Any mask is balanced, and what a rank sends shrinks with their number; but there
/// can be no more ranks than key-value heads.
///
/// Throws std::invalid_argument unless Hq and Hkv are multiples of the number of ranks.
AttentionResult ulysses_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const distributed::Group& group, const RingOptions& options = {});

}  // namespace ladder
