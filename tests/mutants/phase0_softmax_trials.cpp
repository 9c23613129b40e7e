#include "common/reference/low_precision.h"
#include "common/reference/oracle.h"
#include "phase0_softmax/online_attention.h"
#include "phase0_softmax/softmax.h"
#include "tests/mutants/trials.h"

namespace ladder::mutants {
namespace {

/// Rows whose maximum comes early, late and in between, and so large that exp needs it.
torch::Tensor rows(int64_t columns, torch::ScalarType dtype) {
    at::manual_seed(uint64_t(columns));
    torch::Tensor x = at::randn({6, columns}) * 3;
    x[1] += at::linspace(-100, 100, columns);
    x[2] += at::linspace(100, -100, columns);
    x[3] -= 1000;
    return x.to(dtype);
}

}  // namespace

std::vector<Trial> trials(torch::ScalarType dtype) {
    struct Softmax {
        const char* name;
        decltype(&safe_softmax) entry;
    };
    std::vector<Trial> trials;
    for (const auto& [name, softmax] :
         {Softmax{"safe", safe_softmax}, Softmax{"online", online_softmax}, Softmax{"block", block_softmax}})
        for (const int64_t columns : {1, 45, 1001, 5000})
            trials.push_back(trial(std::string(name) + " " + std::to_string(columns),
                                   [=, softmax = softmax]() -> ::testing::AssertionResult {
                                       const torch::Tensor x = rows(columns, dtype);
                                       const reference::Comparison verdict =
                                           reference::compare(softmax(x), reference::softmax_oracle(x),
                                                              reference::softmax_low_precision(x));
                                       if (verdict.passed) return ::testing::AssertionSuccess();
                                       return ::testing::AssertionFailure()
                                              << columns << " columns: " << verdict.report;
                                   }));
    for (Trial& attention : attention_trials(online_attention, dtype, "attention "))
        trials.push_back(std::move(attention));
    return trials;
}

}  // namespace ladder::mutants
