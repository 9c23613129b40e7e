#pragma once

#include "common/attention/options.h"
#include "phase9_ring/parts.h"

namespace ladder {

/// ring_attention() of whole tensors, [B, Hq, Sq, D] and [B, Hkv, Sk, D]: cut over ranks that are threads of this
/// process, and rejoined. For whoever wants to see that it is attention. Several ranks need Gloo, and CPU tensors.
///
/// Throws std::invalid_argument on bad input, before any rank starts.
AttentionResult ring_attention_on_threads(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                          const AttentionOptions& options = {}, int ranks = 1,
                                          Parts parts = Parts::contiguous);

}  // namespace ladder
