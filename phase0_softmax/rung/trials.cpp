#include <limits>

#include "common/reference/comparison.h"
#include "common/simt/device/device.h"
#include "phase0_softmax/online_attention.h"
#include "phase0_softmax/softmax.h"
#include "tests/mutants/trials.h"

namespace ladder::mutants {
namespace {

/// Rows whose maximum comes early, late and in between, and so large that exp needs it; one half of one is -inf.
torch::Tensor rows(int64_t columns, torch::ScalarType dtype) {
    at::manual_seed(uint64_t(columns));
    torch::Tensor x = at::randn({6, columns}) * 3;
    x[1] += at::linspace(-100, 100, columns);
    x[2] += at::linspace(100, -100, columns);
    x[3] -= 1000;
    x[4].slice(0, 0, columns / 2).fill_(-std::numeric_limits<float>::infinity());
    return x.to(dtype);
}

/// Keeps some of the columns of a long row, and less than a round of a block's threads.
torch::Tensor resident_softmax_in_little_room(const torch::Tensor& x) {
    simt::Device device = simt::cpu_device();
    device.shared_bytes_per_block = device.shared_bytes_per_block_optin = 1024;
    const simt::ScopedCpuDevice imitated(device);
    return resident_softmax(x);
}

}  // namespace

std::vector<Trial> trials(torch::ScalarType dtype) {
    struct Softmax {
        const char* name;
        decltype(&safe_softmax) entry;
    };
    std::vector<Trial> trials;
    const auto add = [&](const Softmax& entry, int64_t columns) {
        trials.push_back(trial(std::string(entry.name) + " " + std::to_string(columns),
                               [=, softmax = entry.entry]() -> ::testing::AssertionResult {
                                   const torch::Tensor x = rows(columns, dtype);
                                   const reference::Comparison verdict = reference::compare_softmax(softmax(x), x);
                                   if (verdict.passed) return ::testing::AssertionSuccess();
                                   return ::testing::AssertionFailure() << columns << " columns: " << verdict.report;
                               }));
    };
    for (const Softmax& entry :
         {Softmax{"safe", safe_softmax}, Softmax{"online", online_softmax}, Softmax{"block", block_plain_softmax}})
        for (const int64_t columns : {1, 45, 1001, 5000}) add(entry, columns);
    for (const int64_t columns : {8, 1000, 5000, 20000}) add({"resident", resident_softmax}, columns);
    for (const int64_t columns : {20000, 40000})  // what registers hold beside it, and more than that
        add({"resident, little room,", resident_softmax_in_little_room}, columns);
    for (Trial& attention : attention_trials(online_attention, dtype, "attention "))
        trials.push_back(std::move(attention));
    if (dtype == torch::kFloat32) trials.push_back(infinities_trial("attention infinities", online_attention));
    return trials;
}

}  // namespace ladder::mutants
