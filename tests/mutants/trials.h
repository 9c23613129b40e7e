#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/reference/checks.h"

namespace ladder::mutants {

/// What `caught_by` in the catalogue says, besides the enumerators of simt::Fault.
inline constexpr std::string_view kReference = "reference", kLaunch = "launch";

/// How a trial ended: all empty if nothing was wrong.
struct Outcome {
    std::string caught_by = {};  ///< kReference, kLaunch or an enumerator of simt::Fault
    std::string check = {};      ///< the same in words
    std::string message = {};
    bool hangs = false;                                       ///< the fault is one that a GPU waits for for ever
    double factor = std::numeric_limits<double>::infinity();  ///< of a wrong result: how many times its bound it is off
};

struct Trial {
    std::string name;
    std::function<Outcome()> run;
};

/// A call of an attention entry on a case, held against the reference.
Trial attention_trial(reference::AttentionEntry entry, reference::AttentionCase problem,
                      std::optional<torch::Tensor> kv_lengths = std::nullopt);

/// Any check of a result; what it throws counts as from the kernel.
Trial trial(std::string name, std::function<::testing::AssertionResult()> check);

/// Infinite scores for an unmasked entry: a first tile that holds nothing else but -inf, and others.
Trial infinities_trial(std::string name, reference::AttentionEntry entry, torch::ScalarType dtype = torch::kFloat32);

/// A few small problems for an unmasked entry, with D <= 32, that together reach every line of a tiled kernel: several
/// tiles and ragged ones, grouped heads, surplus columns, rows that are not aligned, a given scale, scores that
/// overflow without the maximum or underflow with a wrong one, and for a 16-bit dtype sums that it cannot hold. The
/// cheapest come first. `prefix` begins their names.
std::vector<Trial> attention_trials(const reference::AttentionEntry& entry, torch::ScalarType dtype,
                                    const std::string& prefix = "");

/// The same problems and a few more for an unmasked entry whose kernel has register tiles
/// (common/attention/register_tile.cuh), on an imitated device that can run it: several query tiles, scales of either
/// sign and 0, and infinite scores. None for a dtype other than float32, the only one that such a kernel takes. Their
/// names begin with "tiled_".
std::vector<Trial> register_tile_trials(const reference::AttentionEntry& entry, torch::ScalarType dtype);

/// The trials that must tell this phase's mutants from the original. Each phase's file defines its own.
std::vector<Trial> trials(torch::ScalarType dtype);

}  // namespace ladder::mutants
