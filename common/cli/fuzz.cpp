#include "common/cli/fuzz.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <optional>

#include "common/attention/machine.h"
#include "common/cli/terminal.h"
#include "common/rung/phase.h"

namespace ladder::cli {
namespace {

volatile std::sig_atomic_t asked_to_stop = 0;

/// While alive, Ctrl-C ends the run after the problem at hand, so that the table is still printed. A second one kills.
class StopOnSignal {
  public:
    StopOnSignal() {
        asked_to_stop = 0;
        for (std::size_t i = 0; i < std::size(kSignals); ++i) before_[i] = std::signal(kSignals[i], stop);
    }
    ~StopOnSignal() {
        for (std::size_t i = 0; i < std::size(kSignals); ++i) std::signal(kSignals[i], before_[i]);
    }
    StopOnSignal(const StopOnSignal&) = delete;
    StopOnSignal& operator=(const StopOnSignal&) = delete;

  private:
    static constexpr int kSignals[] = {SIGINT, SIGTERM};
    static void stop(int signal) {
        asked_to_stop = 1;
        std::signal(signal, SIG_DFL);
    }
    void (*before_[std::size(kSignals)])(int);
};

std::string clock_of(double seconds) {
    const auto whole = std::int64_t(seconds);
    return whole < 60     ? fmt::format("{} s", whole)
           : whole < 3600 ? fmt::format("{}:{:02} min", whole / 60, whole % 60)
                          : fmt::format("{}:{:02}:{:02} h", whole / 3600, whole / 60 % 60, whole % 60);
}

std::uint64_t tried(const fuzz::Tally& t) { return t.problems + t.too_large + t.bad_calls; }

std::string progress_of(const fuzz::Result& result, std::span<const fuzz::Entry> entries) {
    std::string phases;
    for (int phase = entries.front().phase; phase <= entries.back().phase; ++phase) {
        std::uint64_t count = 0;
        for (std::size_t i = 0; i < entries.size(); ++i)
            if (entries[i].phase == phase) count += tried(result.tallies[i]);
        if (count) phases += fmt::format("  {}: {}", phase, count);
    }
    return fmt::format("{}   {} problems, {:.1f}/s   by phase{}{}", clock_of(result.seconds), result.problems,
                       double(result.problems) / std::max(result.seconds, 1e-3), phases,
                       result.failures ? fmt::format("   {} failed", result.failures) : "");
}

void print_finding(const fuzz::Request& request, const fuzz::Finding& finding, const fuzz::Entry& entry) {
    const auto line = [](const char* what, const std::string& text) { fmt::print("  {:<10}{}\n", what, text); };
    const fuzz::Shrunk& smallest = finding.smallest;
    fmt::print("\n{}\n", styled(Style::bad, fmt::format("{} fails: {}", entry.name, smallest.outcome.kind)));
    line("drawn", fuzz::describe(finding.drawn));
    line("smallest", fmt::format("{}   ({} problems tried{})", fuzz::describe(smallest.problem), smallest.trials,
                                 smallest.finished ? "" : ", not finished"));
    if (!smallest.repeats) line("beware", "it did not fail again: the failure comes and goes");
    line("again", rerun_command(request, finding.number));
    fmt::print("\n{}\n", smallest.outcome.report);
    fmt::print("\n{}\n\n{}", styled(Style::bold, "As a test, to be appended to " + entry.test_file), finding.test);
}

/// On a terminal a line that is always there; elsewhere a line now and then, further and further apart.
class Reporter {
  public:
    Reporter(const fuzz::Request& request, std::span<const fuzz::Entry> entries)
        : request_(request), entries_(entries) {}

    bool operator()(const fuzz::Result& result, const std::string& doing) {
        print_findings(result);
        const std::string text = doing.empty() ? progress_of(result, entries_) : doing;
        if (on_terminal()) {
            if (!doing.empty() || result.seconds - last_ >= 0.1) show(text, result.seconds);
        } else if (result.seconds >= next_) {
            fmt::print("  {}\n", text);
            std::fflush(stdout);
            next_ = std::max(result.seconds + 10, result.seconds * 1.25);
        }
        return !asked_to_stop;
    }

    /// Those that have not been printed yet.
    void print_findings(const fuzz::Result& result) {
        for (; printed_ < result.findings.size(); ++printed_) {
            line_.reset();
            const fuzz::Finding& finding = result.findings[printed_];
            print_finding(request_, finding, entries_[finding.entry]);
            std::fflush(stdout);
        }
    }
    void clear() { line_.reset(); }

  private:
    void show(const std::string& text, double now) {
        line_.reset();
        line_.emplace(text);
        last_ = now;
    }

    const fuzz::Request& request_;
    std::span<const fuzz::Entry> entries_;
    std::size_t printed_ = 0;
    std::optional<Progress> line_;
    double last_ = -1, next_ = 10;
};

void print_table(const fuzz::Result& result, std::span<const fuzz::Entry> entries) {
    using Align = Table::Align;
    Table table({{"phase", Align::right},
                 {"entry"},
                 {"problems", Align::right},
                 {"too large", Align::right},
                 {"bad calls", Align::right},
                 {"of the bound", Align::right},
                 {"time", Align::right},
                 {""}});
    int last_phase = -1;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const fuzz::Tally& t = result.tallies[i];
        if (tried(t) == 0) continue;
        table.add(
            {{entries[i].phase == last_phase ? "" : std::to_string(entries[i].phase)},
             {entries[i].name},
             {std::to_string(t.problems)},
             {t.too_large ? std::to_string(t.too_large) : "-"},
             {t.bad_calls ? std::to_string(t.bad_calls) : "-"},
             {fmt::format("{:.0f} %", 100 * t.largest_share)},
             {human_time(1000 * t.seconds)},
             {t.failures ? fmt::format("{} failed", t.failures) : "right", t.failures ? Style::bad : Style::good}});
        last_phase = entries[i].phase;
    }
    fmt::print("\n{}\n{}", table.text(2),
               wrapped("Problems ran and were held against the reference. Too large: refused, as documented, for want "
                       "of shared memory. Bad calls: refused, as they must be. Of the bound: the largest share of the "
                       "error allowed that any problem took.",
                       2));
}

}  // namespace

std::vector<fuzz::Entry> fuzz_entries() {
    std::vector<fuzz::Entry> entries;
    for (const Phase& phase : phases())
        entries.insert(entries.end(), phase.fuzz_entries.begin(), phase.fuzz_entries.end());
    return entries;
}

std::string rerun_command(const fuzz::Request& request, std::uint64_t number) {
    return fmt::format("./ladder fuzz --device {} --seed {} --problem {}", request.device.is_cuda() ? "cuda" : "cpu",
                       request.seed, number);
}

fuzz::Result run_fuzz(const fuzz::Request& request) {
    const std::vector<fuzz::Entry> entries = fuzz_entries();
    fmt::print(
        "{}   random problems on {}, seed {}\n", styled(Style::bold, "Fuzzing"),
        request.device.is_cuda() ? device_limits(request.device).name : "the CPU machine, imitating every profile",
        request.seed);
    std::fflush(stdout);

    Reporter reporter(request, entries);
    const StopOnSignal stop_on_signal;
    const fuzz::Result result = fuzz::run(entries, request, std::ref(reporter));
    reporter.clear();

    reporter.print_findings(result);
    print_table(result, entries);
    if (!result.broken_off.empty())
        fmt::print("\n{}\n", styled(Style::bad, "The device cannot be used any more: " + result.broken_off));
    if (asked_to_stop) fmt::print("\n{}\n", styled(Style::note, "Stopped early."));
    fmt::print("\n{}\n",
               result.failures == 0
                   ? styled(Style::good,
                            fmt::format("{} problems in {}: no report.", result.problems, clock_of(result.seconds)))
                   : styled(Style::bad, fmt::format("{} of {} problems failed.", result.failures, result.problems)));
    return result;
}

}  // namespace ladder::cli
