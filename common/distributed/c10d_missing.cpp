// In the place of c10d_board.cpp and of both engines, where libtorch was built without torch.distributed.
#include <stdexcept>

#include "common/distributed/engines.h"

namespace ladder::distributed {
namespace {

constexpr const char* kMissing =
    "the libtorch of this program has no c10d, PyTorch's distributed part, which ranks talk through: use Debian's or "
    "Ubuntu's libtorch-dev, or PyTorch from pip for Linux, and build again";

}  // namespace

std::shared_ptr<Board> board_of_this_process() { throw std::runtime_error(kMissing); }
std::shared_ptr<Board> board_at(const std::string&, int, bool, const std::string&, Patience) {
    throw std::runtime_error(kMissing);
}
std::shared_ptr<Board> board_kept_here(int&) { throw std::runtime_error(kMissing); }

std::string missing_for_gloo() { return kMissing; }
std::string missing_for_nccl() { return kMissing; }

std::unique_ptr<Engine> connect_gloo(const Board&, const std::string&, int, int, bool, Patience) {
    throw std::runtime_error(kMissing);
}

std::unique_ptr<Engine> connect_nccl(const Board&, const std::string&, int, int, Patience) {
    throw std::runtime_error(kMissing);
}

}  // namespace ladder::distributed
