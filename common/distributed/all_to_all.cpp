#include "common/distributed/all_to_all.h"

namespace ladder::distributed {

std::vector<torch::Tensor> all_to_all(const Group& group, const std::vector<torch::Tensor>& given,
                                      const std::vector<std::vector<std::int64_t>>& sizes) {
    const int rank = group.rank(), ranks = group.size();
    std::vector<Message> sent, received;
    std::vector<torch::Tensor> taken(ranks);
    taken[rank] = given[rank];
    for (int step = 1; step < ranks; ++step) {  // not all to rank 0 first
        const int to = (rank + step) % ranks, from = (rank + ranks - step) % ranks;
        taken[from] = at::empty(sizes[from], given[from].options());
        sent.push_back({given[to].contiguous(), to});
        received.push_back({taken[from], from});
    }
    group.exchange(sent, received).wait();
    return taken;
}

}  // namespace ladder::distributed
