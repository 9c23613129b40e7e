#include "common/attention/outputs.h"

#include <atomic>
#include <limits>

#include "common/simt/device/device.h"
#include "common/simt/memory/global_memory.h"
#include "common/simt/report/leniency.h"

namespace ladder {
namespace {
std::atomic<int> poison_scopes{0};
}

torch::Tensor allocate(torch::IntArrayRef sizes, const torch::TensorOptions& options) {
    torch::Tensor memory = at::empty(sizes, options);
    if (poison_scopes > 0 || (memory.is_cpu() && simt::ScopedLeniency::active()))
        memory.fill_(memory.is_floating_point() ? std::numeric_limits<double>::quiet_NaN() : 127.0);
    if (!memory.is_cpu() || !simt::cpu_machine_checks()) return memory;
    std::shared_ptr<void> unwritten =
        simt::expect_kernels_to_write(memory.data_ptr(), memory.nbytes(), std::size_t(memory.element_size()));
    // The same memory, with a deleter that tells the machine first: what PyTorch makes of it next is not our concern.
    return at::from_blob(
        memory.data_ptr(), sizes, [memory, unwritten](void*) mutable { unwritten.reset(); }, memory.options());
}

PoisonOutputs::PoisonOutputs() { ++poison_scopes; }
PoisonOutputs::~PoisonOutputs() { --poison_scopes; }

}  // namespace ladder
