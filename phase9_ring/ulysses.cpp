#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <stdexcept>
#include <string>

#include "common/attention/attention.h"
#include "common/distributed/all_to_all.h"
#include "phase9_ring/agreement.h"
#include "phase9_ring/alternatives.h"

namespace ladder {
namespace {

using distributed::Group;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A tensor [B, H, S, D] of which ranks hold either all heads of a part of the sequence, or all of the sequence of some
/// heads.
struct Whole : torch::CustomClassHolder {
    Whole(const Group& group, Parts parts, std::int64_t heads, std::int64_t length)
        : group(group), parts(parts), heads_of_a_rank(heads / group.size()), length(length) {}

    Group group;
    Parts parts;
    std::int64_t heads_of_a_rank, length;

    /// Sizes of the heads of one rank in the part of another: what two ranks exchange.
    std::vector<std::int64_t> sizes(const torch::Tensor& like, int rank) const {
        return {like.size(0), heads_of_a_rank, length_of(part_of(parts, length, rank, group.size())), like.size(3)};
    }

    /// [B, H, S_r, D]: [B, H / R, S, D].
    torch::Tensor by_heads(const torch::Tensor& by_sequence) const {
        std::vector<torch::Tensor> given;
        std::vector<std::vector<std::int64_t>> taken;
        for (int rank = 0; rank < group.size(); ++rank) {
            given.push_back(by_sequence.narrow(1, rank * heads_of_a_rank, heads_of_a_rank));
            taken.push_back(sizes(by_sequence, rank));
        }
        return rejoin_sequence(distributed::all_to_all(group, given, taken), 2, parts);
    }

    /// And back.
    torch::Tensor by_sequence(const torch::Tensor& by_heads) const {
        std::vector<torch::Tensor> given;
        for (int rank = 0; rank < group.size(); ++rank)
            given.push_back(cut_sequence(by_heads, 2, parts, rank, group.size()));
        return at::concat(
            distributed::all_to_all(group, given, {std::size_t(group.size()), sizes(by_heads, group.rank())}), 1);
    }
};

using Change = torch::Tensor (Whole::*)(const torch::Tensor&) const;

/// A change from one to the other, which autograd follows: gradients go the other way.
template <Change there, Change back>
struct Changed : torch::autograd::Function<Changed<there, back>> {
    static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x,
                                 const c10::intrusive_ptr<Whole>& whole) {
        const at::AutoDispatchBelowADInplaceOrView to_the_device;
        context->saved_data["whole"] = c10::IValue::make_capsule(whole);
        return ((*whole).*there)(x);
    }

    static variable_list backward(AutogradContext* context, const variable_list& gradients) {
        const auto whole = c10::static_intrusive_pointer_cast<Whole>(context->saved_data["whole"].toCapsule());
        return {((*whole).*back)(gradients[0]), torch::Tensor()};
    }
};

void check_heads(const char* name, std::int64_t heads, int ranks) {
    if (heads % ranks)
        throw std::invalid_argument(std::string("ulysses_attention: ") + name + " has " + std::to_string(heads) +
                                    " heads, and there are " + std::to_string(ranks) +
                                    " ranks; each must get as many: use ring_attention, or fewer ranks");
}

}  // namespace

AttentionResult ulysses_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const Group& group, const RingOptions& options) {
    const Agreement lengths = agree("ulysses_attention", q, k, v, group, options);
    check_heads("q", q.size(1), group.size());
    check_heads("k", k.size(1), group.size());
    using ByHeads = Changed<&Whole::by_heads, &Whole::by_sequence>;
    using BySequence = Changed<&Whole::by_sequence, &Whole::by_heads>;
    const auto queries = c10::make_intrusive<Whole>(group, options.parts, q.size(1), lengths.query_length);
    const auto keys = c10::make_intrusive<Whole>(group, options.parts, k.size(1), lengths.key_length);
    const AttentionResult some_heads = attention_with_lse(ByHeads::apply(q, queries), ByHeads::apply(k, keys),
                                                          ByHeads::apply(v, keys), options.attention);
    return {.out = BySequence::apply(some_heads.out, queries),
            .lse = BySequence::apply(some_heads.lse.unsqueeze(-1), queries).squeeze(-1)};
}

}  // namespace ladder
