#include "common/distributed/local_ranks.h"

#include <ATen/Parallel.h>

#include <exception>
#include <thread>

namespace ladder::distributed {

void on_local_ranks(int ranks, const std::function<void(const Group&)>& body, Patience patience) {
    const std::shared_ptr<Board> board = board_of_this_process();
    std::vector<std::exception_ptr> errors(ranks);
    const auto run = [&](int rank) {
        try {
            at::set_num_threads(1);  // of libtorch's own: the ranks fill the processors
            const Group group(board, rank, ranks, {.engine = EngineKind::gloo, .patience = patience});
            try {
                body(group);
            } catch (const std::exception& error) {
                group.give_up(error.what());
                throw;
            }
        } catch (...) {
            errors[rank] = std::current_exception();
        }
    };
    {
        std::vector<std::jthread> threads;
        for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run, rank);
    }
    std::exception_ptr told;
    for (const std::exception_ptr& error : errors) {
        if (!error) continue;
        try {
            std::rethrow_exception(error);
        } catch (const RankError&) {
            if (!told) told = error;
        }
    }
    if (told) std::rethrow_exception(told);
}

}  // namespace ladder::distributed
