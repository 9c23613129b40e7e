#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/rung/profile.h"

namespace ladder::cli {

/// One run: what was varied, and the bytes that went between the kernels and global memory, read and written.
struct SweepPoint {
    std::int64_t value = 0;
    std::uint64_t bytes = 0;
    std::uint64_t bytes_by_formula = 0;
};

enum class SweepVariable {
    length,         ///< N: keys, and queries where there are as many
    shared_memory,  ///< M: bytes of shared memory that a block may have
};

/// Traffic as one thing varies, all else fixed.
struct Sweep {
    int phase = 0;
    std::string kernel;
    SweepVariable variable = SweepVariable::length;
    std::string law, source;
    double predicted_slope = 0;
    std::string fixed;  ///< what stays: "B 1, H 1, D 64, float32"
    std::vector<SweepPoint> points = {};
    std::vector<std::int64_t> left_out = {};  ///< values at which it did not run
    std::string refusal = {};                 ///< why not, at the first of them

    /// Of the counted bytes, on logarithmic axes; NaN with fewer than two points.
    double slope() const;
};

/// The slope of the line through (log x, log y) that misses the points least, in squares. NaN with fewer than two.
double log_log_slope(std::span<const SweepPoint> points);

/// What the law predicts at `value`, through the point with the most bytes: there, what the law leaves out weighs
/// least.
double predicted_bytes(const Sweep& sweep, std::int64_t value);

/// Runs every rung of the phase at each length, and those whose tiles follow the shared memory at each amount of it as
/// well. On the CPU machine.
std::vector<Sweep> sweep_phase(const Phase& phase, const ProfileRequest& request, std::span<const std::int64_t> lengths,
                               std::span<const std::int64_t> shared_bytes);

}  // namespace ladder::cli
