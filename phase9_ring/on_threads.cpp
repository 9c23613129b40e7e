#include "phase9_ring/on_threads.h"

#include <vector>

#include "common/attention/check.h"
#include "common/distributed/local_ranks.h"
#include "phase9_ring/ring.h"

namespace ladder {

AttentionResult ring_attention_on_threads(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                          const AttentionOptions& options, int ranks, Parts parts) {
    check_attention(q, k, v, options, {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left});
    std::vector<torch::Tensor> out(ranks), lse(ranks);
    distributed::on_local_ranks(ranks, [&](const distributed::Group& group) {
        const int rank = group.rank();
        const auto own = [&](const torch::Tensor& whole) {
            return ranks == 1 ? whole : cut_sequence(whole, 2, parts, rank, ranks);
        };
        const AttentionResult result =
            ring_attention(own(q), own(k), own(v), group, {.attention = options, .parts = parts});
        out[rank] = result.out;
        lse[rank] = result.lse;
    });
    return {.out = rejoin_sequence(out, 2, parts), .lse = rejoin_sequence(lse, 2, parts)};
}

}  // namespace ladder
