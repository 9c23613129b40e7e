#include <stdexcept>

#include "common/distributed/engines.h"

namespace ladder::distributed {

std::string missing_for_gloo() {
    return "this program was built without Gloo, which carries CPU tensors: install its headers (Debian, Ubuntu: sudo "
           "apt install libgloo-dev, beside libtorch-dev; PyTorch from pip brings none) and build again";
}

std::unique_ptr<Engine> connect_gloo(const Board&, const std::string&, int, int, bool, Patience) {
    throw std::runtime_error(missing_for_gloo());
}

}  // namespace ladder::distributed
