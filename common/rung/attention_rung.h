#pragma once

#include <functional>
#include <string>

#include "common/attention/options.h"
#include "common/rung/rung.h"

namespace ladder {

/// An entry with everything but the tensors decided.
using AttentionCall =
    std::function<AttentionResult(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v)>;

/// The rung of an entry that computes attention on `input`: held against the oracle, with the operations of the two
/// matrix products over the pairs that `options` lets see each other.
Rung attention_rung(std::string kernel, std::string changes, const RungInput& input, const AttentionOptions& options,
                    AttentionCall entry, GlobalBytes bytes, Growth growth);

/// A block keeps B_r query rows, a number of its own, and all keys come past it.
Growth growth_with_query_tiles();

/// Every key and value once for a few queries.
Growth growth_with_few_queries();

/// `input` with the few queries instead of all.
RungInput with_newest(RungInput input);

}  // namespace ladder
