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

std::vector<AttentionGradients> gradients_of(const LossOfQueries& loss, const KeysAndValues& keys,
                                             const std::vector<Block>& blocks, const std::optional<double>& scale) {
    RECORD_USER_SCOPE("work");
    std::vector<AttentionGradients> of_blocks;
    for (const Block& block : blocks) {
        const auto dlse = loss.dlse ? std::optional(rows(*loss.dlse, block.queries)) : std::nullopt;
        of_blocks.push_back(attention_backward(rows(loss.dout, block.queries), rows(loss.q, block.queries),
                                               rows(keys.k, block.keys), rows(keys.v, block.keys),
                                               rows(loss.out, block.queries), rows(loss.lse, block.queries), dlse,
                                               {.scale = scale, .mask = block.mask}));
    }
    return of_blocks;
}

void add_query_gradients(const torch::Tensor& dq, const std::vector<Block>& blocks,
                         const std::vector<AttentionGradients>& of_blocks) {
    for (std::size_t i = 0; i < blocks.size(); ++i) rows(dq, blocks[i].queries).add_(of_blocks[i].dq);
}

void add_key_gradients(const KeysAndValues& d_keys, const std::vector<Block>& blocks,
                       const std::vector<AttentionGradients>& of_blocks) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        rows(d_keys.k, blocks[i].keys).add_(of_blocks[i].dk);
        rows(d_keys.v, blocks[i].keys).add_(of_blocks[i].dv);
    }
}

}  // namespace ladder
