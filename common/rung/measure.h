#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/attention/options.h"
#include "common/rung/profile.h"
#include "common/simt/device/device.h"
#include "common/torch/torch.h"

namespace ladder::quiz {

/// One entry's run on the CPU machine, counted.
struct Measured {
    RungProfile profile;
    std::string source;   ///< for Question::source
    std::string command;  ///< that counts the same

    std::uint64_t read(std::string_view tensor) const;  ///< bytes, by all kernels of the entry
    std::uint64_t written(std::string_view tensor) const;
    std::uint64_t traffic() const;             ///< bytes read and written
    std::uint64_t traffic_by_formula() const;  ///< likewise, as the phase's GlobalBytes has them
    std::uint64_t barriers() const { return profile.total().block_barriers; }
    std::uint64_t collectives() const { return profile.total().warp_collectives; }
    const LaunchProfile& launch(std::size_t number = 0) const { return profile.launches.at(number); }
    std::uint64_t blocks() const { return launch().launch.blocks(); }
    std::int64_t tile(const std::string& name) const { return profile.tiles.at(name); }  ///< see Rung::tiles
};

/// Runs the entry on random tensors, on the CPU machine with the limits of `device`. Throws std::logic_error if it
/// refuses the problem, or if what it moved is not what its formula says: a quiz must not teach what is not so.
Measured measure(int phase, const std::string& entry, const ProfileProblem& problem,
                 std::string_view device = simt::kDefaultProfile);

/// The same of the last rung of the phase before `phase`, to compare with.
Measured measure_before(int phase, const ProfileProblem& problem, std::string_view device = simt::kDefaultProfile);

/// The values that row 0 of the first head went through, as the kernel showed them under `name` ("m", "l", "rescale").
std::vector<double> watched(const char* name, const std::function<void()>& run);

using AttentionEntry = AttentionResult (*)(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                                           const AttentionOptions&);

/// One query whose scores are these, by q = 1, K = scores, D = 1 and scale 1; V = values, or 1 for each key.
struct ScoredRow {
    torch::Tensor q, k, v;
    AttentionOptions options{.scale = 1.0};

    explicit ScoredRow(std::span<const double> scores, std::span<const double> values = {});

    AttentionResult run(AttentionEntry entry) const { return entry(q, k, v, options); }
    double out(AttentionEntry entry) const { return run(entry).out.item<double>(); }
    double lse(AttentionEntry entry) const { return run(entry).lse.item<double>(); }
    /// What the kernel held under that name when it was through.
    double last(const char* name, AttentionEntry entry) const;
};

/// The command that runs an entry, named as torch.ops.flash_ladder has it, on such a row in Python.
std::string python_command(std::span<const double> scores, std::string_view entry, std::span<const double> values = {});

/// "1, 3, 2"
std::string list_of(std::span<const double> numbers);

}  // namespace ladder::quiz
