#include "common/reference/checks.h"

#include <algorithm>
#include <limits>

namespace ladder::reference {
namespace {

/// Everything in a tensor's memory as integers, gaps between rows included: bits compare equal even where they are NaN.
torch::Tensor memory_bits(const torch::Tensor& tensor) {
    const auto item_size = static_cast<int64_t>(tensor.element_size());
    const auto items = static_cast<int64_t>(tensor.storage().nbytes()) / item_size;
    const auto memory = at::empty({0}, tensor.options()).set_(tensor.storage(), 0, {items}, {1});
    return memory.view(item_size == 2 ? torch::kInt16 : torch::kInt32);
}

void poison_past_lengths(AttentionInputs& inputs, const torch::Tensor& kv_lengths) {
    const auto lengths = kv_lengths.cpu();
    for (int64_t b = 0; b < inputs.k.size(0); ++b) {
        const auto length = lengths[b].item<int64_t>();
        for (const auto& cache : {inputs.k, inputs.v}) {
            cache[b].narrow(1, length, cache.size(2) - length).fill_(std::numeric_limits<double>::quiet_NaN());
        }
    }
}

}  // namespace

std::string message_of(const std::exception& error) {
    const auto* from_torch = dynamic_cast<const c10::Error*>(&error);
    return from_torch ? from_torch->what_without_backtrace() : error.what();
}

::testing::AssertionResult matches_reference(const AttentionEntry& entry, const AttentionCase& problem,
                                             torch::Device device, Lse lse,
                                             const std::optional<torch::Tensor>& kv_lengths) {
    auto inputs = make_inputs(problem, device);
    if (kv_lengths) poison_past_lengths(inputs, *kv_lengths);
    const auto q_before = memory_bits(inputs.q).clone();
    const auto k_before = memory_bits(inputs.k).clone();
    const auto v_before = memory_bits(inputs.v).clone();

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
    if (!at::equal(q_before, memory_bits(inputs.q))) fail("q: the entry wrote to its input");
    if (!at::equal(k_before, memory_bits(inputs.k))) fail("k: the entry wrote to its input");
    if (!at::equal(v_before, memory_bits(inputs.v))) fail("v: the entry wrote to its input");
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
