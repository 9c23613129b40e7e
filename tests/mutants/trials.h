#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/reference/checks.h"
#include "common/simt/machine_error.h"

namespace ladder::mutants {

/// How a trial ended: `complaint` is empty if nothing was wrong.
struct Outcome {
    std::optional<simt::Fault> fault = {};
    std::string complaint = {};
};

using Trial = std::function<Outcome()>;

/// A call of an attention entry on a case, held against the reference.
Trial attention_trial(reference::AttentionEntry entry, reference::AttentionCase problem,
                      std::optional<torch::Tensor> kv_lengths = std::nullopt);

/// Any check that returns an AssertionResult, and may throw a MachineError.
Trial trial(std::function<::testing::AssertionResult()> check);

/// A few small problems for an unmasked entry, in float32 with D <= 32, that together reach every line of a tiled
/// kernel: several tiles and ragged ones, grouped heads, surplus columns, rows that are not aligned, a given scale,
/// scores that overflow without the maximum or underflow with a wrong one. The cheapest come first.
std::vector<Trial> attention_trials(const reference::AttentionEntry& entry);

/// The trials that must tell this phase's mutants from the original. Each phase's file defines its own.
std::vector<Trial> trials();

}  // namespace ladder::mutants
