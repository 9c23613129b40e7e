#include "common/attention/allocate.h"

#include <atomic>
#include <limits>

namespace ladder {
namespace {
std::atomic<int> poison_scopes{0};
}

torch::Tensor allocate(torch::IntArrayRef sizes, const torch::TensorOptions& options) {
    torch::Tensor memory = at::empty(sizes, options);
    if (poison_scopes > 0) memory.fill_(std::numeric_limits<double>::quiet_NaN());
    return memory;
}

PoisonOutputs::PoisonOutputs() { ++poison_scopes; }
PoisonOutputs::~PoisonOutputs() { --poison_scopes; }

}  // namespace ladder
