#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/cli/bench/cases.h"
#include "common/cli/bench/statistics.h"

namespace ladder::cli::bench {

/// What speed is counted in. 1 TFLOP/s is 10^12 operations a second, 1 GB/s is 10^9 bytes a second.
enum class Unit { tflops, gb_s };
std::string name_of(Unit unit);

/// The unit in which problems of this kind are counted.
Unit unit_of(Work work);

/// `amount` floating-point operations or bytes in `milliseconds`.
double rate_of(Unit unit, double amount, double milliseconds);

/// What the device reached in this run when asked for one thing only.
struct Ceiling {
    std::string name = {};  ///< "gemm_f32", "gemm_bf16", "copy", "read"
    std::string what = {};  ///< how it was measured, in a few words
    Unit unit = Unit::tflops;
    double amount = 0;  ///< operations or bytes of one call
    Spread milliseconds = {};
    std::string not_available = {};  ///< why there is none; empty if there is

    /// Of the fastest sample: in others the power limit may have held the clock down. Rates of kernels are of medians.
    double rate() const { return rate_of(unit, amount, milliseconds.least); }
};

/// The ceiling that bounds a problem: a product of matrices of its dtype's kind, a copy for a softmax, which writes as
/// much as it reads, and a stream of reads for decoding.
std::string ceiling_name(const Problem& problem);

/// What one kernel launch occupied.
struct LaunchUse {
    std::string kernel = {};
    std::uint64_t blocks = 0;
    std::uint64_t threads_per_block = 0;
    std::uint64_t shared_bytes_per_block = 0;
    int registers_per_thread = 0;  ///< 0 where nobody knows: on the CPU machine
    int local_bytes_per_thread = 0;
    int resident_blocks = 0;  ///< per multiprocessor
    double occupancy = 0;     ///< resident threads of those that a multiprocessor has room for
};

/// What a measurement is of.
enum class Role {
    rung,  ///< an entry of this repository
    step,  ///< one step of the rung, on its own: its time is part of the rung's
    peer,  ///< what somebody else would use, or another phase's entry to compare with
};

/// One contestant's result on one case.
struct Measurement {
    std::string name = {};
    Role role = Role::rung;
    std::string not_available = {};  ///< the reason; empty if it was measured
    bool broke = false;              ///< that reason is a failure, not a limit of the device or the contestant
    Spread milliseconds = {};        ///< of one call
    int calls_per_sample = 0;
    double flops = 0;
    double useful_bytes = 0;
    double moved_bytes = 0;  ///< what the algorithm asks of global memory, by formula; 0 if there is none
    bool right = false;
    double max_abs_error = 0;
    double bound = 0;
    std::string verdict = {};  ///< the comparison's own words
    std::vector<LaunchUse> launches = {};

    bool available() const { return not_available.empty(); }
    double rate(Unit unit) const {
        return rate_of(unit, unit == Unit::tflops ? flops : useful_bytes, milliseconds.median);
    }
};

/// All that was measured on one case.
struct CaseResult {
    Case what = {};
    std::string error = {};    ///< why nothing was measured; empty if something was
    bool broke = false;        ///< that reason is a failure, not a limit of the device or of the time
    std::string checked = {};  ///< what part of the results was held against what
    int input_sets = 0;
    std::vector<Measurement> measurements = {};

    Unit unit() const { return unit_of(what.problem.work); }
    const Measurement* find(const std::string& name) const;
};

/// Where, when and with what. Empty where it is not known.
struct Environment {
    std::string commit = {}, date = {};
    std::string device = {};  ///< "cuda" or "cpu"
    std::string device_name = {};
    std::string profile = {};  ///< what the CPU machine imitates
    std::string driver = {}, cuda = {}, torch = {}, cudnn = {};
    std::int64_t cache_bytes = 0;                           ///< L2
    std::map<std::string, std::string> clocks_before = {};  ///< as nvidia-smi reads them, with units in the keys
    std::map<std::string, std::string> clocks_after = {};
};

/// All that a run of ./ladder bench found out.
struct Report {
    Environment environment = {};
    bool quick = false;
    double seconds = 0;  ///< how long the run took
    std::vector<Ceiling> ceilings = {};
    std::vector<CaseResult> cases = {};

    bool teaching_machine() const { return environment.device != "cuda"; }
    const Ceiling* find_ceiling(const std::string& name) const;

    /// The part of its ceiling that a rung reaches on its case; 0 where the ceiling is not known.
    double share_of_ceiling(const CaseResult& result, const Measurement& measurement) const;

    /// Rungs and steps that gave a wrong answer.
    int wrong() const;
    /// Cases, rungs and steps that broke.
    int broken() const;
};

/// How many times as fast the rung does its useful work as the peer does its own; 0 if either was not measured.
double ratio(const CaseResult& result, const Measurement& rung, const Measurement& peer);

/// As JSON: everything measured, and the rates, shares and ratios that follow from it.
std::string to_json(const Report& report);

/// The same back. Throws std::runtime_error for text that is no such report; the message starts with `source`.
Report from_json(const std::string& text, const std::string& source);

/// Tables for a terminal, at most 120 columns.
std::string to_text(const Report& report);

}  // namespace ladder::cli::bench
