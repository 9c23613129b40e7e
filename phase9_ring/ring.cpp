#include "phase9_ring/ring.h"

#include "phase9_ring/agreement.h"
#include "phase9_ring/differentiable.h"
#include "phase9_ring/step.h"

namespace ladder {
namespace {

using distributed::Exchange;
using distributed::Group;

/// The way round: after `step` steps a rank has the part that began `step` ranks before it.
class Ring {
  public:
    Ring(const char* call, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, const Group& group,
         const RingOptions& options)
        : group_(group), options_(options), agreement_(agree(call, q, k, v, group, options)) {
        sizes_ = k.sizes().vec();
    }

    int steps() const { return group_.size(); }

    /// Whose keys a rank has at a step.
    int owner(int step) const { return (group_.rank() - step + group_.size()) % group_.size(); }

    /// Where this rank's queries see the keys that it has at a step.
    std::vector<Block> blocks_at(int step) const {
        return blocks(options_.attention.mask, part(agreement_.query_length, group_.rank()),
                      part(agreement_.key_length, owner(step)), agreement_.query_length, agreement_.key_length);
    }

    /// Memory for the keys and values that a rank has at a step, or for as much.
    KeysAndValues room(int step, const torch::TensorOptions& of) const {
        std::vector<std::int64_t> sizes = sizes_;
        sizes[2] = length_of(part(agreement_.key_length, owner(step)));
        return {at::empty(sizes, of), at::empty(sizes, of)};
    }

    /// Gradients of the rank's own keys and values, to which nobody has added anything.
    KeysAndValues zeros(const torch::TensorOptions& of) const { return {at::zeros(sizes_, of), at::zeros(sizes_, of)}; }

    /// Begins to send `here` to the next rank, and to receive from the previous one what that has. A ring of one rank
    /// keeps what it has.
    Exchange pass_on(const KeysAndValues& here, const KeysAndValues& there) const {
        if (group_.size() == 1) {
            there.k.copy_(here.k);
            there.v.copy_(here.v);
            return {};
        }
        return group_.exchange({{here.k, group_.next()}, {here.v, group_.next()}},
                               {{there.k, group_.previous()}, {there.v, group_.previous()}});
    }

  private:
    std::vector<Interval> part(std::int64_t length, int rank) const {
        return part_of(options_.parts, length, rank, group_.size());
    }

    const Group& group_;
    const RingOptions& options_;
    Agreement agreement_;
    std::vector<std::int64_t> sizes_;
};

AttentionResult forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, const Group& group,
                        const RingOptions& options) {
    const Ring ring("ring_attention", q, k, v, group, options);
    SoFar so_far(q);
    KeysAndValues here{k.contiguous(), v.contiguous()};
    for (int step = 0; step < ring.steps(); ++step) {
        // The next keys are on their way while these are worked on. Nobody writes `here` before it has been sent, nor
        // reads `there` before it has arrived: both are so when wait() returns.
        KeysAndValues there;
        Exchange on_the_way;
        if (step + 1 < ring.steps()) {
            there = ring.room(step + 1, k.options());
            on_the_way = ring.pass_on(here, there);
            if (!options.overlap) on_the_way.wait();
        }
        add_attention(so_far, q, here, ring.blocks_at(step), options.attention.scale);
        on_the_way.wait();
        here = there;
    }
    return so_far.result();
}

/// dK and dV travel with the keys that they belong to, one step behind: a rank adds what its queries give to what came
/// with the keys, and passes the sum on. After the last step it goes home, one rank further.
AttentionGradients backward(const LossOfQueries& loss, const torch::Tensor& k, const torch::Tensor& v,
                            const Group& group, const RingOptions& options) {
    const Ring ring("the backward pass of ring_attention", loss.q, k, v, group, options);
    const auto in_float32 = loss.q.options().dtype(torch::kFloat32);
    torch::Tensor dq = at::zeros(loss.q.sizes(), in_float32);
    KeysAndValues here{k.contiguous(), v.contiguous()};
    KeysAndValues arrived;  // the sums of dK and dV that belong to `here`
    Exchange sums_on_the_way;
    for (int step = 0; step < ring.steps(); ++step) {
        const bool last = step + 1 == ring.steps();
        KeysAndValues there;
        Exchange on_the_way;
        if (!last) {
            there = ring.room(step + 1, k.options());
            on_the_way = ring.pass_on(here, there);
            if (!options.overlap) on_the_way.wait();
        }
        const std::vector<Block> blocks = ring.blocks_at(step);
        const auto of_blocks = gradients_of(loss, here, blocks, options.attention.scale);
        add_query_gradients(dq, blocks, of_blocks);
        sums_on_the_way.wait();
        KeysAndValues sums = step > 0 ? arrived : ring.zeros(in_float32);
        add_key_gradients(sums, blocks, of_blocks);
        // Nothing will be added to it any more: rounded now, half of it need travel home.
        if (last) sums = {sums.k.to(k.scalar_type()), sums.v.to(v.scalar_type())};
        arrived = ring.room(step + 1, sums.k.options());
        sums_on_the_way = ring.pass_on(sums, arrived);
        if (!options.overlap) sums_on_the_way.wait();
        on_the_way.wait();
        here = there;
    }
    sums_on_the_way.wait();
    return {.dq = dq.to(loss.q.scalar_type()), .dk = arrived.k, .dv = arrived.v};
}

constexpr SharedAttention kRing{.forward = forward, .backward = backward};

}  // namespace

AttentionResult ring_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const Group& group, const RingOptions& options) {
    return with_autograd(kRing, q, k, v, group, options);
}

}  // namespace ladder
