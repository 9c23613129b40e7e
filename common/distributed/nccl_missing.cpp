#include <stdexcept>

#include "common/distributed/engines.h"

namespace ladder::distributed {

std::string missing_for_nccl() {
    return "this program was built without NCCL, which carries CUDA tensors: it needs a PyTorch with CUDA (pip install "
           "torch, which brings NCCL) and nvcc; ./ladder doctor says what is missing";
}

std::unique_ptr<Engine> connect_nccl(const Board&, const std::string&, int, int, Patience) {
    throw std::runtime_error(missing_for_nccl());
}

}  // namespace ladder::distributed
