// What the CPU machine costs: the same kernels with all checks, without, and the same arithmetic in plain nested loops.
//
// One worker. The three take turns, round after round, so that whatever else the processor does meets all of them
// alike; the median over the rounds counts, and its spread is shown. Where a neighbour slows the processor down for
// seconds, whole rounds are slow: so two contestants are compared round by round, and the median of those ratios
// counts. Every result is compared with the plain loops' before anything is timed.
//
// Plain loops never switch between threads; the machine does, each time that a thread meets the others of its warp or
// block at a barrier or in a warp collective. How often, and what one such meeting costs, is measured too, and so its
// share of the unchecked time. A bare switch between two stacks is the least that a meeting can cost where the threads
// of a block take turns: added to the plain loops, it gives a bound for any such machine
// whose arithmetic is no faster than the loops'.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/records/compact.h"
#include "common/simt/device/device.h"
#include "common/simt/language/float16.h"
#include "common/simt/report/launch_log.h"
#include "phase5_decoding/decode_arguments.h"
#include "tests/machine_speed/bare_switches.h"
#include "tests/machine_speed/plain_loops.h"

namespace ladder {

// The kernels, compiled once for each machine.
namespace cpu {
void launch_fa2_forward(const AttentionArguments&);
void launch_decode_split(const DecodeArguments&);
void launch_online_softmax(const SoftmaxArguments&);
}  // namespace cpu
namespace unchecked {
void launch_fa2_forward(const AttentionArguments&);
void launch_decode_split(const DecodeArguments&);
void launch_online_softmax(const SoftmaxArguments&);
void launch_shuffles(float* sums, int threads, int times);
}  // namespace unchecked

namespace {

using simt::ElementType;

enum Contestant { kChecked, kUnchecked, kPlain };
constexpr std::array<const char*, 3> kNames{"checked", "unchecked", "plain"};

constexpr double kCheckedTarget = 4.0;    // times unchecked
constexpr double kUncheckedTarget = 1.5;  // times plain loops

/// A dense tensor on the host.
class Buffer {
  public:
    Buffer(const char* name, ElementType type, std::vector<std::int64_t> sizes) {
        argument_ = {.name = name, .type = type, .rank = int(sizes.size())};
        std::int64_t count = 1;
        for (int i = argument_.rank - 1; i >= 0; --i) {
            argument_.extents[i] = sizes[i];
            argument_.strides[i] = count;
            count *= sizes[i];
        }
        count_ = std::size_t(count);
        storage_ = &new_storage(count_ * 4 / sizeof(Line) + 1);
        argument_.data = storage_->data();
    }

    void fill(std::mt19937& random) {
        std::normal_distribution<float> normal;
        for (std::size_t i = 0; i < count_; ++i) set(i, normal(random));
    }
    void forget() { std::memset(storage_->data(), 0xff, storage_->size() * sizeof(Line)); }  // NaN

    std::vector<float> values() const {
        std::vector<float> result(count_);
        for (std::size_t i = 0; i < count_; ++i)
            result[i] = argument_.type == ElementType::f32 ? at<float>(i) : float(at<simt::f16>(i));
        return result;
    }
    const simt::TensorArgument& argument() const { return argument_; }

  private:
    struct alignas(64) Line {
        std::byte bytes[64];
    };
    /// Lives as long as the program. The machine watches what kernels may write, by its address; were it freed, an
    /// input of a later race might be given the same memory, and be watched too.
    static std::vector<Line>& new_storage(std::size_t lines) {
        static std::deque<std::vector<Line>> storages;
        return storages.emplace_back(lines);
    }
    template <class T>
    T& at(std::size_t i) const {
        return static_cast<T*>(argument_.data)[i];
    }
    void set(std::size_t i, float value) {
        if (argument_.type == ElementType::f32)
            at<float>(i) = value;
        else
            at<simt::f16>(i) = simt::f16(value);
    }

    simt::TensorArgument argument_;
    std::size_t count_;
    std::vector<Line>* storage_;
};

/// One problem, and how each contestant solves it.
struct Race {
    std::string kernel, problem;
    Buffer* result;
    std::array<std::function<void()>, 3> run;
};

struct Time {
    double median, fastest, slowest;  // milliseconds
};

using Samples = std::vector<double>;  // milliseconds, round by round

double median(Samples samples) {
    std::ranges::sort(samples);
    return samples[samples.size() / 2];
}

Time time_of(const Samples& samples) {
    const auto [fastest, slowest] = std::ranges::minmax(samples);
    return {median(samples), fastest, slowest};
}

struct Outcome {
    std::string kernel, problem;
    std::array<Samples, 3> samples;
    std::uint64_t meetings;  // of one thread with the others of its warp or block

    Time time(Contestant contestant) const { return time_of(samples[contestant]); }
    double ratio(Contestant a, Contestant b) const {
        Samples ratios(samples[a].size());
        std::ranges::transform(samples[a], samples[b], ratios.begin(), std::divides());
        return median(std::move(ratios));
    }
};

/// Processor time of this thread, on which the one worker runs: time that other programs take does not count.
double milliseconds_so_far() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return double(now.tv_sec) * 1e3 + double(now.tv_nsec) * 1e-6;
}

double milliseconds_of(const std::function<void()>& work) {
    const double start = milliseconds_so_far();
    work();
    return milliseconds_so_far() - start;
}

/// Exits if a contestant's result is not that of the plain loops: a wrong kernel's speed is worth nothing.
void require_equal_results(const Race& race) {
    race.result->forget();
    race.run[kPlain]();
    const std::vector<float> expected = race.result->values();
    for (const Contestant contestant : {kChecked, kUnchecked}) {
        race.result->forget();
        race.run[contestant]();
        const std::vector<float> found = race.result->values();
        for (std::size_t i = 0; i < expected.size(); ++i)
            if (!(std::abs(found[i] - expected[i]) <= 2e-3f)) {
                fmt::print(stderr, "{} {}: element {} is {} by the {} kernel, {} by the plain loops\n", race.kernel,
                           race.problem, i, found[i], kNames[contestant], expected[i]);
                std::exit(EXIT_FAILURE);
            }
    }
}

std::uint64_t count_meetings(const Race& race) {
    const simt::LaunchLog log;
    race.run[kChecked]();
    std::uint64_t meetings = 0;
    for (const simt::LaunchRecord& launch : log.records())
        meetings += launch.counters.warp_collectives * 32 +
                    launch.counters.block_barriers * launch.block[0] * launch.block[1] * launch.block[2];
    return meetings;
}

/// Nanoseconds, medians.
struct Costs {
    double meeting;      // of a thread with the others, in a block of the kernels' usual size
    double bare_switch;  // between the stacks of a warp's lanes
};

Costs measure_costs(int rounds) {
    constexpr int threads = 128, times = 4000;
    std::array<float, threads> sums;
    Samples meetings, switches;
    for (int round = 0; round < rounds; ++round) {
        meetings.push_back(milliseconds_of([&] { unchecked::launch_shuffles(sums.data(), threads, times); }));
        switches.push_back(milliseconds_of([&] { run_bare_switches(32, threads / 32 * times); }));
    }
    constexpr double nanoseconds_each = 1e6 / (double(threads) * times);
    return {median(std::move(meetings)) * nanoseconds_each, median(std::move(switches)) * nanoseconds_each};
}

Outcome measure(const Race& race, int rounds) {
    require_equal_results(race);
    std::array<Samples, 3> samples;
    for (int round = 0; round < rounds; ++round)
        for (std::size_t i = 0; i < samples.size(); ++i) {
            race.run[i]();  // so that nobody pays for what the one before left in the caches
            samples[i].push_back(milliseconds_of(race.run[i]));
        }
    return {race.kernel, race.problem, std::move(samples), count_meetings(race)};
}

std::string processor() {
    std::ifstream information("/proc/cpuinfo");
    for (std::string line; std::getline(information, line);)
        if (line.starts_with("model name")) return line.substr(line.find(": ") + 2);
    return "unknown";
}

std::string today() {
    const std::time_t now = std::time(nullptr);
    std::array<char, 11> text{};
    std::strftime(text.data(), text.size(), "%Y-%m-%d", std::gmtime(&now));
    return text.data();
}

/// The share of the unchecked time that goes into meetings.
double share_of_meetings(const Outcome& o, const Costs& costs) {
    return double(o.meetings) * costs.meeting * 1e-6 / o.time(kUnchecked).median;
}

/// The time of plain loops that also switch as often as the kernel's threads meet, over that of the plain loops.
double least_over_plain(const Outcome& o, const Costs& costs) {
    return 1.0 + double(o.meetings) * costs.bare_switch * 1e-6 / o.time(kPlain).median;
}

nlohmann::ordered_json json_of(const std::vector<Outcome>& outcomes, const Costs& costs, int rounds) {
    const char* commit = std::getenv("LADDER_COMMIT");
    nlohmann::ordered_json json{
        {"commit", commit ? commit : "unknown"},
        {"date", today()},
        {"processor", processor()},
        {"compiler", MACHINE_SPEED_COMPILER},
        {"options", MACHINE_SPEED_OPTIONS},
        {"workers", 1},
        {"rounds", rounds},
        {"nanoseconds_per_meeting", costs.meeting},
        {"nanoseconds_per_bare_switch", costs.bare_switch},
        {"unit", "milliseconds"},
        {"targets", {{"checked_over_unchecked", kCheckedTarget}, {"unchecked_over_plain", kUncheckedTarget}}},
        {"results", nlohmann::ordered_json::array()}};
    for (const Outcome& o : outcomes) {
        nlohmann::ordered_json result{{"kernel", o.kernel}, {"problem", o.problem}};
        for (const Contestant contestant : {kChecked, kUnchecked, kPlain}) {
            const Time time = o.time(contestant);
            result[kNames[contestant]] = {
                {"median", time.median}, {"fastest", time.fastest}, {"slowest", time.slowest}};
        }
        result["checked_over_unchecked"] = o.ratio(kChecked, kUnchecked);
        result["unchecked_over_plain"] = o.ratio(kUnchecked, kPlain);
        result["meetings"] = o.meetings;
        result["share_of_meetings"] = share_of_meetings(o, costs);
        result["least_over_plain"] = least_over_plain(o, costs);
        json["results"].push_back(std::move(result));
    }
    return json;
}

void print_table(const std::vector<Outcome>& outcomes, const Costs& costs) {
    const auto cell = [](const Time& t) {
        return fmt::format("{:.1f} ({:.1f}-{:.1f})", t.median, t.fastest, t.slowest);
    };
    constexpr const char* format = "{:<15}{:<30}{:>21}{:>21}{:>21}{:>8}{:>9}{:>8}{:>10}{:>7}\n";
    fmt::print(fmt::runtime(format), "kernel", "problem", "checked", "unchecked", "plain loops", "checks", "machine",
               "least", "meetings", "share");
    for (const Outcome& o : outcomes)
        fmt::print(fmt::runtime(format), o.kernel, o.problem, cell(o.time(kChecked)), cell(o.time(kUnchecked)),
                   cell(o.time(kPlain)), fmt::format("{:.2f}x", o.ratio(kChecked, kUnchecked)),
                   fmt::format("{:.2f}x", o.ratio(kUnchecked, kPlain)),
                   fmt::format("{:.2f}x", least_over_plain(o, costs)), o.meetings,
                   fmt::format("{:.0f} %", 100 * share_of_meetings(o, costs)));
    fmt::print(R"(
times     milliseconds: median (fastest-slowest)
checks    checked / unchecked, the median of the rounds' ratios, to be at most {:.1f}x
machine   unchecked / plain loops, likewise, to be at most {:.1f}x
least     the same for plain loops that switch stacks at each meeting, {:.1f} ns each, and do nothing else besides
meetings  of a thread with the others of its warp or block, {:.1f} ns each; share: of the unchecked time
)",
               kCheckedTarget, kUncheckedTarget, costs.bare_switch, costs.meeting);
}

Outcome attention_race(ElementType type, std::mt19937& random, int rounds) {
    constexpr std::int64_t B = 1, H = 4, N = 512, D = 64;
    Buffer q("Q", type, {B, H, N, D}), k("K", type, {B, H, N, D}), v("V", type, {B, H, N, D});
    Buffer out("O", type, {B, H, N, D}), lse("LSE", ElementType::f32, {B, H, N});
    for (Buffer* input : {&q, &k, &v}) input->fill(random);
    const AttentionArguments a{.q = q.argument(),
                               .k = k.argument(),
                               .v = v.argument(),
                               .out = out.argument(),
                               .lse = lse.argument(),
                               .scale = 0.125f};
    return measure({"fa2_forward",
                    fmt::format("B{} H{} N{} D{} {}", B, H, N, D, name_of(type)),
                    &out,
                    {[&] { cpu::launch_fa2_forward(a); }, [&] { unchecked::launch_fa2_forward(a); },
                     [&] { plain::attention(a); }}},
                   rounds);
}

Outcome decode_race(ElementType type, std::mt19937& random, int rounds) {
    constexpr std::int64_t B = 2, Hq = 8, Hkv = 2, N = 4096, D = 64;
    Buffer q("Q", type, {B, Hq, 1, D}), k("K", type, {B, Hkv, N, D}), v("V", type, {B, Hkv, N, D});
    Buffer out("O", type, {B * Hq, D}), lse("LSE", ElementType::f32, {B * Hq});
    for (Buffer* input : {&q, &k, &v}) input->fill(random);
    DecodeArguments a;
    a.q = q.argument();
    a.k = k.argument();
    a.v = v.argument();
    a.out = out.argument();
    a.lse = lse.argument();
    a.scale = 0.125f;
    return measure(
        {"decode_split",
         fmt::format("B{} H{}/{} keys{} D{} {}", B, Hq, Hkv, N, D, name_of(type)),
         &out,
         {[&] { cpu::launch_decode_split(a); }, [&] { unchecked::launch_decode_split(a); }, [&] { plain::decode(a); }}},
        rounds);
}

/// As many elements whatever the columns: what a row costs besides them shows.
template <std::int64_t Columns>
Outcome softmax_race(ElementType type, std::mt19937& random, int rounds) {
    constexpr std::int64_t columns = Columns, rows = (1 << 19) / columns;
    Buffer x("x", type, {rows, columns}), y("y", type, {rows, columns});
    x.fill(random);
    const SoftmaxArguments a{.x = x.argument(), .y = y.argument()};
    return measure({"online_softmax",
                    fmt::format("{} rows of {} {}", rows, columns, name_of(type)),
                    &y,
                    {[&] { cpu::launch_online_softmax(a); }, [&] { unchecked::launch_online_softmax(a); },
                     [&] { plain::softmax(a); }}},
                   rounds);
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
    using namespace ladder;
    CLI::App app("Times kernels on the checked and the unchecked CPU machine, and the same arithmetic in plain loops.");
    std::string json_file;
    int rounds = 15;
    app.add_option("--rounds", rounds, "how often each is run; the median counts")->check(CLI::Range(1, 1000));
    app.add_option("--json", json_file, "also write the results to this file");
    CLI11_PARSE(app, argc, argv);

    simt::set_cpu_workers(1);
    std::mt19937 random(1);
    std::vector<Outcome> outcomes;
    for (const auto race : {attention_race, decode_race, softmax_race<1024>, softmax_race<4096>})
        for (const ElementType type : {ElementType::f32, ElementType::f16})
            outcomes.push_back(race(type, random, rounds));
    const Costs costs = measure_costs(rounds);
    print_table(outcomes, costs);

    if (!json_file.empty()) {
        std::ofstream file(json_file);
        file << ladder::compact_text(json_of(outcomes, costs, rounds));
        if (!file.flush()) {
            fmt::print(stderr, "cannot write {}\n", json_file);
            return EXIT_FAILURE;
        }
    }
}
