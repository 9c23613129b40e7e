#include "common/reference/checks.h"

#include "common/reference/call_memory.h"

namespace ladder::reference {

::testing::AssertionResult matches_reference(const AttentionEntry& entry, const AttentionCase& problem,
                                             torch::Device device, Lse lse,
                                             const std::optional<torch::Tensor>& kv_lengths) {
    auto inputs = make_inputs(problem, device);
    if (kv_lengths) poison_past_lengths(inputs, *kv_lengths);
    const MemoryWatch watch({{"q", inputs.q}, {"k", inputs.k}, {"v", inputs.v}});

    AttentionResult actual;
    try {
        actual = entry(inputs.q, inputs.k, inputs.v, problem.options);
    } catch (const std::exception& error) {
        return ::testing::AssertionFailure() << problem << ": the entry threw: " << message_of(error);
    }

    auto verdict = ::testing::AssertionSuccess();
    const auto fail = [&](const std::string& what) {
        if (verdict) verdict = ::testing::AssertionFailure() << problem << ", seed " << problem.seed;
        verdict << "\n" << what;
    };
    for (const auto& name : watch.written()) fail(name + ": the entry wrote to its input");
    const auto comparison = compare_attention(actual, inputs.q, inputs.k, inputs.v, problem.options, kv_lengths, lse);
    if (!comparison.passed) fail(comparison.report);
    if (verdict) verdict << problem << ": " << comparison.report;
    return verdict;
}

::testing::AssertionResult throws_mentioning(const std::function<void()>& callable,
                                             const std::vector<std::string>& needles) {
    try {
        callable();
    } catch (const std::exception& error) {
        const auto message = message_of(error);
        for (const auto& needle : needles) {
            if (message.find(needle) == std::string::npos) {
                return ::testing::AssertionFailure() << "the message lacks \"" << needle << "\": " << message;
            }
        }
        return ::testing::AssertionSuccess() << message;
    } catch (...) {
        return ::testing::AssertionFailure() << "threw something that is not a std::exception";
    }
    return ::testing::AssertionFailure() << "threw nothing";
}

}  // namespace ladder::reference
