#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/reference/bad_inputs.h"
#include "common/reference/call_memory.h"
#include "common/reference/cases.h"
#include "common/reference/comparison.h"
#include "common/reference/inputs.h"
#include "common/torch/torch.h"

namespace ladder::reference {

/// The form of every attention entry. An entry with more parameters is wrapped in a lambda that fixes them.
using AttentionEntry = std::function<AttentionResult(const torch::Tensor& q, const torch::Tensor& k,
                                                     const torch::Tensor& v, const AttentionOptions& options)>;

/// Runs `entry` on the inputs of a case and holds the result against the oracle (see compare_attention).
///
/// Also fails when the entry writes to its inputs, including the memory between their rows.
///
/// @param kv_lengths  [B] lengths that the entry's wrapper passes on; the keys and values past them are set to NaN
///                    before the call, because an entry has no business reading them
::testing::AssertionResult matches_reference(const AttentionEntry& entry, const AttentionCase& problem,
                                             torch::Device device, Lse lse = Lse::present,
                                             const std::optional<torch::Tensor>& kv_lengths = {});

/// Passes iff `callable` throws a std::exception whose message contains every needle (backtraces do not count).
::testing::AssertionResult throws_mentioning(const std::function<void()>& callable,
                                             const std::vector<std::string>& needles);

/// Names a parameterized test after its parameter: `INSTANTIATE_TEST_SUITE_P(…, ValuesIn(standard_cases()), ByName{})`.
struct ByName {
    /// The parameter's `name`, which must be made of letters, digits and underscores.
    template <class Param>
    std::string operator()(const ::testing::TestParamInfo<Param>& info) const {
        return info.param.name;
    }
};

}  // namespace ladder::reference
