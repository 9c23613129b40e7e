#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/fuzz/shrink.h"
#include "common/torch/torch.h"

namespace ladder::fuzz {

using Seconds = std::chrono::duration<double>;

/// What ./ladder fuzz is asked for.
struct Request {
    std::uint64_t seed = 0;
    std::uint64_t first = 0;                     ///< number of the first problem
    std::optional<std::uint64_t> problems = {};  ///< how many to run; as many as time allows when absent
    std::optional<Seconds> time = {};            ///< no problem is begun after that; no limit when absent
    Seconds shrinking_time = Seconds(30);        ///< for each failure
    std::vector<int> phases = {};                ///< problems of other phases are passed over; empty: all run
    std::vector<std::string> entries = {};       ///< the same of entries, by their names
    torch::Device device = torch::kCPU;
    bool keep_going = false;  ///< after a failure
};

/// What became of the problems of one entry.
struct Tally {
    std::uint64_t problems = 0;   ///< that ran: refused ones are not among them
    std::uint64_t too_large = 0;  ///< refused as documented, for want of shared memory
    std::uint64_t bad_calls = 0;  ///< refused as they had to be
    std::uint64_t failures = 0;
    double largest_share = 0;  ///< of the bound that an error took
    std::string closest = {};  ///< the problem which did that
    double seconds = 0;
};

/// A problem on which an entry failed, shrunk.
struct Finding {
    std::size_t entry = 0;
    std::uint64_t number = 0;  ///< of the problem under the seed
    Problem drawn = {};
    Shrunk smallest = {};
    std::string test = {};  ///< see as_test
};

/// What came of a run of the fuzzer.
struct Result {
    std::vector<Tally> tallies = {};     ///< one for each entry
    std::vector<Finding> findings = {};  ///< with keep_going, the first of each entry and kind
    std::uint64_t problems = 0;          ///< all that were tried
    std::uint64_t failures = 0;
    double seconds = 0;
    std::string broken_off = {};  ///< why no further problem could be tried; empty if the run ended as it should
};

/// Called after each problem, and before a failure is shrunk; says whether to go on.
using Watch = std::function<bool(const Result&, const std::string& doing)>;

/// Draws problem after problem and tries it, until time or problems run out, something fails, or `watch` says to stop.
/// Entries of phases that were not asked for keep empty tallies.
Result run(std::span<const Entry> entries, const Request& request, const Watch& watch = {});

}  // namespace ladder::fuzz
