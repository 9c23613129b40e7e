#include "common/distributed/all_to_all.h"
#include "phase9_ring/agreement.h"
#include "phase9_ring/alternatives.h"
#include "phase9_ring/differentiable.h"
#include "phase9_ring/step.h"

namespace ladder {
namespace {

using distributed::Group;

/// All of K or V, from every rank's part.
torch::Tensor gathered(const torch::Tensor& part, std::int64_t length, const Group& group, Parts parts) {
    std::vector<std::vector<std::int64_t>> sizes(group.size(), part.sizes().vec());
    for (int rank = 0; rank < group.size(); ++rank)
        sizes[rank][2] = length_of(part_of(parts, length, rank, group.size()));
    return rejoin_sequence(distributed::all_to_all(group, std::vector(group.size(), part), sizes), 2, parts);
}

/// This rank's part of a sum of which each rank has a term, for all of K or V, in float32.
torch::Tensor sum_of_all(const torch::Tensor& term, const torch::Tensor& part, const Group& group, Parts parts) {
    std::vector<torch::Tensor> given;
    for (int rank = 0; rank < group.size(); ++rank) given.push_back(cut_sequence(term, 2, parts, rank, group.size()));
    const std::vector<std::vector<std::int64_t>> sizes(group.size(), part.sizes().vec());
    torch::Tensor sum = at::zeros(part.sizes(), term.options());
    for (const torch::Tensor& of_rank : distributed::all_to_all(group, given, sizes)) sum.add_(of_rank);
    return sum.to(part.scalar_type());
}

std::vector<Block> blocks_of(const Agreement& whole, const Group& group, const RingOptions& options) {
    return blocks(options.attention.mask, part_of(options.parts, whole.query_length, group.rank(), group.size()),
                  {{.first = 0, .length = whole.key_length}}, whole.query_length, whole.key_length);
}

AttentionResult forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, const Group& group,
                        const RingOptions& options) {
    const Agreement whole = agree("gathered_attention", q, k, v, group, options);
    const KeysAndValues all{gathered(k, whole.key_length, group, options.parts),
                            gathered(v, whole.key_length, group, options.parts)};
    SoFar so_far(q);
    add_attention(so_far, q, all, blocks_of(whole, group, options), options.attention.scale);
    return so_far.result();
}

/// K and V are gathered again, rather than kept since the forward pass.
AttentionGradients backward(const LossOfQueries& loss, const torch::Tensor& k, const torch::Tensor& v,
                            const Group& group, const RingOptions& options) {
    const Agreement whole = agree("the backward pass of gathered_attention", loss.q, k, v, group, options);
    const KeysAndValues all{gathered(k, whole.key_length, group, options.parts),
                            gathered(v, whole.key_length, group, options.parts)};
    const auto in_float32 = loss.q.options().dtype(torch::kFloat32);
    const torch::Tensor dq = at::zeros(loss.q.sizes(), in_float32);
    const KeysAndValues d_all{at::zeros(all.k.sizes(), in_float32), at::zeros(all.v.sizes(), in_float32)};
    const std::vector<Block> blocks = blocks_of(whole, group, options);
    const auto of_blocks = gradients_of(loss, all, blocks, options.attention.scale);
    add_query_gradients(dq, blocks, of_blocks);
    add_key_gradients(d_all, blocks, of_blocks);
    return {.dq = dq.to(loss.q.scalar_type()),
            .dk = sum_of_all(d_all.k, k, group, options.parts),
            .dv = sum_of_all(d_all.v, v, group, options.parts)};
}

constexpr SharedAttention kGathered{.forward = forward, .backward = backward};

}  // namespace

AttentionResult gathered_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const Group& group, const RingOptions& options) {
    return with_autograd(kGathered, q, k, v, group, options);
}

}  // namespace ladder
