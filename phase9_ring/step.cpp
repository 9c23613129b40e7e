#include "phase9_ring/step.h"

#include <ATen/record_function.h>

#include "common/attention/attention.h"

namespace ladder {
namespace {

torch::Tensor rows(const torch::Tensor& tensor, const Interval& of) { return tensor.narrow(2, of.first, of.length); }

}  // namespace

void add_attention(SoFar& so_far, const torch::Tensor& q, const KeysAndValues& keys, const std::vector<Block>& blocks,
                   const std::optional<double>& scale) {
    RECORD_USER_SCOPE("work");
    for (const Block& block : blocks)
        so_far.merge(block.queries.first,
                     attention_with_lse(rows(q, block.queries), rows(keys.k, block.keys), rows(keys.v, block.keys),
                                        {.scale = scale, .mask = block.mask}));
}

void add_gradients(torch::Tensor& dq, KeysAndValues& d_keys, const LossOfQueries& loss, const KeysAndValues& keys,
                   const std::vector<Block>& blocks, const std::optional<double>& scale) {
    RECORD_USER_SCOPE("work");
    for (const Block& block : blocks) {
        const auto dlse = loss.dlse ? std::optional(rows(*loss.dlse, block.queries)) : std::nullopt;
        const AttentionGradients part =
            attention_backward(rows(loss.dout, block.queries), rows(loss.q, block.queries), rows(keys.k, block.keys),
                               rows(keys.v, block.keys), rows(loss.out, block.queries), rows(loss.lse, block.queries),
                               dlse, {.scale = scale, .mask = block.mask});
        rows(dq, block.queries).add_(part.dq);
        rows(d_keys.k, block.keys).add_(part.dk);
        rows(d_keys.v, block.keys).add_(part.dv);
    }
}

}  // namespace ladder
