#include "common/simt/device.h"
#include "phase2_fa1/fa1.h"
#include "tests/mutants/trials.h"

namespace ladder::mutants {

std::vector<Trial> trials() {
    return attention_trials([](const auto& q, const auto& k, const auto& v, const auto& options) {
        // Tiles follow from the device: little shared memory makes them small, and small problems many tiles long.
        simt::Device device = simt::cpu_device();
        device.shared_bytes_per_block_optin = 24 * 1024;
        device.shared_bytes_per_block = 24 * 1024;
        const simt::ScopedCpuDevice imitated(device);
        return fa1_forward(q, k, v, options);
    });
}

}  // namespace ladder::mutants
