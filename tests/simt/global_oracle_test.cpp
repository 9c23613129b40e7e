// The watch over global memory against an independent judge: random launches of random short programs.
//
// The machine keeps a few words per element and argues with intervals and with the lowest blocks. The judge keeps every
// access and holds each against each. It does not depend on the order in which threads or blocks run, and so neither
// may what the machine says: every launch is judged with one worker and with several.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "common/simt/memory/global_hand_in.h"
#include "common/simt/memory/global_memory.h"
#include "tests/simt/testing.h"

namespace simt::testing {
namespace {

constexpr int kCells = 8, kFreshCells = 4;  // the last four hold garbage at first
constexpr int kThreads = 40, kWarps = 2;

/// An access of `width` neighbouring cells, or a __syncwarp() of the whole warp.
struct Step {
    bool syncwarp = false;
    int thread = 0, cell = 0, width = 1;
    bool write = false;
};

/// blocks[b][p][w]: what warp w of block b does before its p-th __syncthreads().
struct Program {
    std::vector<std::vector<std::array<std::vector<Step>, kWarps>>> blocks;
};

std::ostream& operator<<(std::ostream& out, const Program& program) {
    for (std::size_t b = 0; b < program.blocks.size(); ++b) {
        out << "block " << b << ":\n";
        for (const auto& phase : program.blocks[b]) {
            for (const auto& steps : phase) {
                out << "  warp:";
                for (const Step& s : steps)
                    if (s.syncwarp)
                        out << " [syncwarp]";
                    else
                        out << " t" << s.thread << (s.write ? " writes " : " reads ") << s.cell << "+" << s.width;
                out << "\n";
            }
            out << "  [syncthreads]\n";
        }
    }
    return out;
}

Program random_program(std::mt19937& random) {
    const auto below = [&](int n) { return int(random() % unsigned(n)); };
    Program program;
    program.blocks.resize(1 + below(5));
    const int density = 1 + below(4), reads_per_write = below(6), spread = 1 + below(kCells);
    const bool cells_of_their_own = below(2);  // or else nearly every launch of several blocks has a conflict
    for (std::size_t b = 0; b < program.blocks.size(); ++b) {
        program.blocks[b].resize(1 + below(2));
        for (auto& phase : program.blocks[b])
            for (int w = 0; w < kWarps; ++w)
                for (int count = below(density + 1); count > 0; --count) {
                    const int lanes = w == 0 ? 32 : kThreads - 32, width = cells_of_their_own ? 1 : 1 << below(3);
                    phase[w].push_back({.thread = w * 32 + std::array{0, 1, lanes - 1}[below(3)],
                                        .cell = cells_of_their_own && below(12) ? int(b + below(2) * 5) % kCells
                                                                                : below(spread) / width * width,
                                        .width = width,
                                        .write = below(reads_per_write + 1) == 0});
                    if (below(2)) phase[w].push_back({.syncwarp = true});
                }
    }
    return program;
}

void execute(const Program& program, const GlobalTensor<bf16, 2>& cells) {
    const int thread = int(threadIdx.x);
    const auto touch = [&]<class V>(const Step& s, V value) {
        if (s.write)
            cells.vec<V>(0, s.cell) = value;
        else
            value = cells.vec<V>(0, s.cell);
    };
    for (const auto& phase : program.blocks[blockIdx.x]) {
        for (const Step& s : phase[thread / 32]) {
            if (s.syncwarp) {
                __syncwarp();
            } else if (s.thread == thread) {
                if (s.width == 1) touch(s, Vector<bf16, 1>{});
                if (s.width == 2) touch(s, Vector<bf16, 2>{});
                if (s.width == 4) touch(s, Vector<bf16, 4>{});
            }
        }
        __syncthreads();
    }
}

/// One cell of one access, and when it happened.
struct Event {
    int block, thread, cell;
    bool write;
    int phase, stretch, number;

    bool before(const Event& other) const {
        if (block != other.block) return false;
        if (thread == other.thread) return number < other.number;
        if (phase != other.phase) return phase < other.phase;
        return thread / 32 == other.thread / 32 && stretch < other.stretch;
    }
    bool races_with(const Event& other) const {
        return cell == other.cell && (write || other.write) && !before(other) && !other.before(*this) &&
               (block != other.block || thread != other.thread);
    }
};

struct Verdict {
    std::vector<std::pair<Event, Event>> races;  // the higher block first
    std::vector<Event> unwritten;
    bool clean() const { return races.empty() && unwritten.empty(); }
};

Verdict judge(const Program& program, const std::array<bool, kCells>& holds_value) {
    std::vector<Event> events;
    for (std::size_t b = 0; b < program.blocks.size(); ++b)
        for (std::size_t p = 0; p < program.blocks[b].size(); ++p)
            for (const auto& steps : program.blocks[b][p]) {
                int stretch = 0;
                for (const Step& s : steps) {
                    stretch += s.syncwarp;
                    for (int i = 0; i < s.width && !s.syncwarp; ++i)
                        events.push_back({.block = int(b),
                                          .thread = s.thread,
                                          .cell = s.cell + i,
                                          .write = s.write,
                                          .phase = int(p),
                                          .stretch = stretch,
                                          .number = int(events.size())});
                }
            }
    Verdict verdict;
    for (const Event& a : events) {
        for (const Event& b : events)
            if (a.number > b.number && a.races_with(b)) verdict.races.push_back({a, b});
        const auto provides = [&](const Event& b) { return b.write && b.cell == a.cell && b.before(a); };
        if (!a.write && !holds_value[a.cell] && std::ranges::none_of(events, provides)) verdict.unwritten.push_back(a);
    }
    return verdict;
}

/// Whether the machine's word is true, and the first that could be said.
::testing::AssertionResult true_and_first(const MachineError& error, const Verdict& verdict) {
    const MachineError::Report& report = error.report();
    const auto names = [&](int cell) {
        return error.report().what.find("cells(0, " + std::to_string(cell) + ")") != std::string::npos;
    };
    const int block = int(report.block[0]);
    const auto between_blocks = [](const auto& race) { return race.first.block != race.second.block; };
    std::pair<int, int> first_pair{INT_MAX, INT_MAX};
    std::set<int> cut_short;  // blocks with a fault of their own, which may end before they touch another's elements
    for (const Event& e : verdict.unwritten) cut_short.insert(e.block);
    for (const auto& race : verdict.races)
        if (between_blocks(race))
            first_pair = std::min(first_pair, {race.first.block, race.second.block});
        else
            cut_short.insert(race.first.block);

    if (first_pair.first < block || (!cut_short.empty() && *cut_short.begin() < block))
        return ::testing::AssertionFailure() << "an earlier block has a fault";
    if (report.second.block && !cut_short.contains(block) &&
        first_pair != std::pair(block, int((*report.second.block)[0])))
        return ::testing::AssertionFailure() << "another pair of blocks comes first";
    if (report.fault == Fault::unwritten_read) {
        for (const Event& e : verdict.unwritten)
            if (e.block == block && e.thread == report.first.thread && names(e.cell))
                return ::testing::AssertionSuccess();
        return ::testing::AssertionFailure() << "that element had been written";
    }
    if (report.fault != Fault::global_race) return ::testing::AssertionFailure() << "no such fault";
    for (const auto& race : verdict.races) {
        const auto& [a, b] = race;
        const auto is = [&](const Event& now, const Event& then) {
            return now.block == block && now.thread == report.first.thread && then.thread == report.second.thread &&
                   then.block == (report.second.block ? int((*report.second.block)[0]) : block) && names(now.cell);
        };
        if (is(a, b) || is(b, a)) return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure() << "those two do not race";
}

TEST(GlobalOracle, TheJudgeItself) {
    const auto verdict = [](int block, int thread, bool syncwarp, int cell, bool first_writes = true) {
        Program program;
        program.blocks.resize(2, std::vector<std::array<std::vector<Step>, kWarps>>(1));
        program.blocks[0][0][0] = {{.thread = 1, .cell = 2, .width = 2, .write = first_writes}};
        if (syncwarp) program.blocks[0][0][0].push_back({.syncwarp = true});
        program.blocks[block][0][thread / 32].push_back({.thread = thread, .cell = cell});
        return judge(program, {true, true, true, true});
    };
    EXPECT_EQ(verdict(0, 5, false, 3).races.size(), 1u);
    EXPECT_TRUE(verdict(0, 5, true, 3).clean());
    EXPECT_EQ(verdict(0, 35, true, 3).races.size(), 1u);
    EXPECT_EQ(verdict(1, 1, true, 3).races.size(), 1u);
    EXPECT_TRUE(verdict(1, 1, true, 3, false).clean());
    EXPECT_TRUE(verdict(0, 1, false, 3).clean());
    EXPECT_TRUE(verdict(1, 1, false, 1).clean());
    EXPECT_EQ(verdict(1, 1, false, 4).unwritten.size(), 1u);
}

TEST(GlobalOracle, AgreesOnRandomLaunches) {
    constexpr int kLaunches = 12000;
    std::mt19937 random(20240608);
    std::map<std::string, int> found;
    for (int n = 0; n < kLaunches;) {
        std::array<Buffer<bf16>, 2> buffers{Buffer<bf16>("cells", {1, kCells}), Buffer<bf16>("cells", {1, kCells})};
        std::array<std::shared_ptr<void>, 2> fresh;
        std::array<bool, kCells> holds_value{true, true, true, true};
        for (int i = 0; i < 2; ++i)
            fresh[i] = expect_kernels_to_write(buffers[i].base + kCells - kFreshCells, kFreshCells * sizeof(bf16),
                                               sizeof(bf16));
        // Launches follow one another on the same memory until one goes wrong.
        for (bool clean = true; clean; ++n) {
            const Program program = random_program(random);
            const Verdict verdict = judge(program, holds_value);
            std::ostringstream text;
            text << "launch " << n << "\n" << program;
            SCOPED_TRACE(text.str());
            std::array<std::string, 2> messages;
            for (int i = 0; i < 2; ++i) {
                const Workers workers(i == 0 ? 1 : 3);
                const auto error = fault_of({.grid = unsigned(program.blocks.size()), .block = kThreads},
                                            [&program, cells = buffers[i].view<2>()] { execute(program, cells); });
                ASSERT_EQ(!error, verdict.clean()) << (error ? error->what() : "the machine saw nothing wrong");
                if (!error) continue;
                messages[i] = error->what();
                ASSERT_TRUE(true_and_first(*error, verdict)) << error->what();
                if (i == 0)
                    ++found[std::string(name_of(error->report().fault)) +
                            (error->report().second.block ? " between blocks" : "")];
            }
            ASSERT_EQ(messages[0], messages[1]);
            clean = verdict.clean();
            found["nothing"] += clean;
            for (const auto& block : program.blocks)
                for (const auto& phase : block)
                    for (const auto& steps : phase)
                        for (const Step& s : steps)
                            for (int c = s.cell; c < s.cell + s.width && s.write; ++c) holds_value[c] = true;
        }
    }
    // Every verdict must come up often, or the comparison says little.
    EXPECT_EQ(found.size(), 4u);
    for (const auto& [verdict, times] : found) EXPECT_GT(times, kLaunches / 20) << verdict;
}

// Blocks end in any order; what is reported is what would have come up first had they run one after another.
TEST(GlobalOracle, BlocksHandInInAnyOrder) {
    constexpr int kBlocks = 5, kFew = 2;
    Buffer<float> buffer("cells", {kFew});
    buffer.view<1>();
    std::mt19937 random(20240609);
    const auto sites = [](int cell, bool write) { return SourceSite("somewhere", unsigned(2 * cell + write + 1)); };
    int conflicts = 0;
    for (int n = 0; n < 300; ++n) {
        std::array<std::array<std::array<bool, 2>, kFew>, kBlocks> does{};  // [block][cell][write]
        const int writes_per_10 = 1 + int(random() % 6);
        for (auto& block : does)
            for (auto& cell : block) cell = {random() % 2 == 0, int(random() % 10) < writes_per_10};

        // The later block, the earlier one, the cell, and who writes: both, only the earlier, only the later.
        using Conflict = std::tuple<int, int, int, int>;
        std::set<Conflict> all;
        for (int b = 0; b < kBlocks; ++b)
            for (int a = 0; a < b; ++a)
                for (int c = 0; c < kFew; ++c) {
                    if (does[b][c][true] && does[a][c][true]) all.insert({b, a, c, 0});
                    if (does[b][c][false] && does[a][c][true]) all.insert({b, a, c, 1});
                    if (does[b][c][true] && does[a][c][false]) all.insert({b, a, c, 2});
                }
        conflicts += !all.empty();

        std::array<int, kBlocks> order{0, 1, 2, 3, 4};
        do {
            GlobalLaunchShadow launch("kernel", dim3(kBlocks), {});
            const auto region = std::ranges::find_if(launch.regions(), [&](const auto& r) {
                const auto base = reinterpret_cast<std::uintptr_t>(buffer.base);
                return r->begin <= base && base < r->end;
            });
            ASSERT_NE(region, launch.regions().end());
            const std::size_t first_cell = (*region)->cell_of(reinterpret_cast<std::uintptr_t>(buffer.base));
            for (const int b : order) {
                GlobalLaunchShadow::HandIn hand_in(launch, std::uint64_t(b));
                for (int c = 0; c < kFew; ++c) {
                    const std::size_t cell = first_cell + std::size_t(c);
                    auto& page = hand_in.page_of(**region, cell);
                    if (does[b][c][false]) hand_in.read(page, cell, {b, tensor_id("cells"), sites(c, false)});
                    if (does[b][c][true]) hand_in.write(page, cell, {b, tensor_id("cells"), sites(c, true)});
                }
            }
            const auto report = launch.conflict(UINT64_MAX);
            ASSERT_EQ(report.has_value(), !all.empty());
            ASSERT_EQ(launch.has_conflict(), !all.empty());
            if (!report) continue;
            const auto [later, earlier, cell, writers] = *all.begin();
            ASSERT_EQ(report->first.block, (std::array<unsigned, 3>{unsigned(later), 0, 0})) << report->what;
            ASSERT_EQ(report->second.block, (std::array<unsigned, 3>{unsigned(earlier), 0, 0})) << report->what;
            ASSERT_EQ(report->first.site, sites(cell, writers != 1)) << report->what;
            ASSERT_EQ(report->second.site, sites(cell, writers != 2)) << report->what;
            ASSERT_EQ(std::pair(report->first.thread, report->second.thread), std::pair(later, earlier));
            ASSERT_FALSE(launch.conflict(std::uint64_t(later) - 1));
        } while (std::ranges::next_permutation(order).found);
    }
    EXPECT_GT(conflicts, 100);
    EXPECT_LT(conflicts, 290);
}

}  // namespace
}  // namespace simt::testing
