#include "common/fuzz/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "common/fuzz/draw.h"
#include "common/fuzz/test_text.h"
#include "common/reference/call_memory.h"

namespace ladder::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return Seconds(Clock::now() - begin).count(); }

void count(Tally& tally, const Problem& problem, const Outcome& outcome, double seconds) {
    tally.seconds += seconds;
    switch (outcome.verdict) {
        case Verdict::passed:
            ++tally.problems;
            if (outcome.share_of_bound > tally.largest_share) {
                tally.largest_share = outcome.share_of_bound;
                tally.closest = describe(problem);
            }
            break;
        case Verdict::refused:
            ++(problem.bad_call.empty() ? tally.too_large : tally.bad_calls);
            break;
        case Verdict::failed:
            ++tally.problems;
            ++tally.failures;
            break;
    }
}

/// Why `device` can no longer be used, as after a stray access on a GPU; empty if it can.
std::string why_unusable(torch::Device device) {
    try {
        at::ones({1}, at::TensorOptions().device(device)).cpu();
        return "";
    } catch (const std::exception& error) {
        return reference::message_of(error);
    }
}

}  // namespace

Result run(std::span<const Entry> entries, const Request& request, const Watch& watch) {
    const auto among = [](const auto& chosen, const auto& value) {
        return chosen.empty() || std::ranges::find(chosen, value) != chosen.end();
    };
    const auto wanted = [&](const Entry& entry) {
        return among(request.phases, entry.phase) && among(request.entries, entry.name);
    };
    if (std::ranges::none_of(entries, wanted)) throw std::invalid_argument("fuzz: there is no entry to try");

    const auto begin = Clock::now();
    Result result{.tallies = std::vector<Tally>(entries.size())};
    std::set<std::pair<std::size_t, std::string>> kinds;
    const auto go_on = [&](const std::string& doing) {
        result.seconds = seconds_since(begin);
        return !watch || watch(result, doing);
    };
    for (std::uint64_t number = request.first;; ++number) {
        if (request.problems && result.problems >= *request.problems) break;
        if (request.time && seconds_since(begin) >= request.time->count()) break;
        Draw draw = draw_problem(entries, request.seed, number);
        if (request.device.is_cuda()) {  // which is what it is
            draw.problem.profile = simt::kDefaultProfile;
            draw.problem.workers = 1;
        }
        const Entry& entry = entries[draw.entry];
        if (!wanted(entry)) continue;

        const auto problem_begin = Clock::now();
        const Outcome outcome = try_problem(entry, draw.problem, request.device);
        count(result.tallies[draw.entry], draw.problem, outcome, seconds_since(problem_begin));
        ++result.problems;
        if (outcome.verdict == Verdict::failed) {
            ++result.failures;
            result.broken_off = why_unusable(request.device);
            if (kinds.emplace(draw.entry, outcome.kind).second) {
                const bool stopped = !go_on("shrinking " + describe(draw.problem));
                Finding finding{.entry = draw.entry, .number = number, .drawn = draw.problem};
                if (result.broken_off.empty() && !stopped)
                    finding.smallest =
                        shrink(entry, draw.problem, outcome, request.device,
                               std::chrono::duration_cast<std::chrono::milliseconds>(request.shrinking_time));
                else
                    finding.smallest = {.problem = draw.problem, .outcome = outcome, .finished = false};
                finding.test =
                    as_test(entry, finding.smallest.problem,
                            fmt::format("Found by ./ladder fuzz --seed {} --problem {}.", request.seed, number));
                result.findings.push_back(std::move(finding));
                result.broken_off = why_unusable(request.device);
            }
            if (!request.keep_going || !result.broken_off.empty()) break;
        }
        if (!go_on("")) break;
    }
    result.seconds = seconds_since(begin);
    return result;
}

}  // namespace ladder::fuzz
