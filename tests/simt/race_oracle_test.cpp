// The race detector against an independent one: random short programs, judged by the machine and by vector clocks.
//
// The machine keeps a few words per cell and argues with intervals. The judge here keeps every access and, for every
// thread, how much of each other thread's past it has been told of (Lamport's happened-before). It knows nothing of
// intervals, and it does not depend on the order in which threads run.

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <random>
#include <sstream>

#include "tests/simt/testing.h"

namespace simt::testing {
namespace {

constexpr int kCells = 8;

/// One access to `width` neighbouring 16-bit cells from `cell` on.
struct Access {
    int thread, cell, width;
    bool write;
};

/// What ends a stretch of a warp's work.
enum class Seam { syncwarp, shuffle, vote };

/// The work of one warp between two __syncthreads(): stretches[n] ends in seams[n].
struct WarpPhase {
    std::vector<std::vector<Access>> stretches;
    std::vector<Seam> seams;
};

/// phases[p][w]: what warp w does before the p-th __syncthreads().
struct Program {
    int threads;
    std::vector<std::vector<WarpPhase>> phases;
};

std::ostream& operator<<(std::ostream& out, const Program& program) {
    out << program.threads << " threads\n";
    for (const auto& phase : program.phases) {
        for (std::size_t w = 0; w < phase.size(); ++w) {
            out << "  warp " << w << ":";
            for (std::size_t n = 0; n < phase[w].stretches.size(); ++n) {
                for (const Access& a : phase[w].stretches[n])
                    out << " t" << a.thread << (a.write ? " writes " : " reads ") << a.cell << "+" << a.width << ";";
                constexpr const char* names[] = {"syncwarp", "shuffle", "vote"};
                out << " [" << names[int(phase[w].seams[n])] << "]";
            }
            out << "\n";
        }
        out << "  [syncthreads]\n";
    }
    return out;
}

/// A few threads of two or three warps, so that they meet often.
Program random_program(std::mt19937& random) {
    const auto below = [&](int n) { return int(random() % unsigned(n)); };
    Program program{.threads = std::array{32, 40, 64, 70}[below(4)], .phases = {}};
    const int warps = (program.threads + 31) / 32, cells = 1 + below(kCells), density = 1 + below(4);
    const int reads_per_write = 1 + below(6);
    program.phases.resize(1 + below(3));
    for (auto& phase : program.phases) {
        phase.resize(warps);
        for (int w = 0; w < warps; ++w) {
            const int lanes = std::min(32, program.threads - w * 32);
            const int actors[] = {w * 32 + below(lanes), w * 32 + below(lanes), w * 32 + lanes - 1};
            const int stretches = 1 + below(4);
            for (int n = 0; n < stretches; ++n) {
                std::vector<Access> accesses;
                for (int count = below(density + 1); count > 0; --count) {
                    const int width = 1 << below(4);
                    accesses.push_back({.thread = actors[below(3)],
                                        .cell = below(cells) / width * width,
                                        .width = width,
                                        .write = below(reads_per_write + 1) == 0});
                }
                phase[w].stretches.push_back(std::move(accesses));
                phase[w].seams.push_back(
                    std::array{Seam::syncwarp, Seam::syncwarp, Seam::shuffle, Seam::vote}[below(4)]);
            }
        }
    }
    return program;
}

/// Runs a program on the machine, one thread's part of it per call.
void execute(const Program& program) {
    const auto cells = SharedArena().tile<bf16, 1, kCells>("cells");
    const int thread = int(threadIdx.x), warp = thread / 32;
    if (thread == 0)
        for (int c = 0; c < kCells; ++c) cells(0, c) = bf16(0.0f);
    __syncthreads();
    const auto touch = [&]<class V>(const Access& a, V) {
        V value{};
        if (a.write)
            cells.vec<V>(0, a.cell) = value;
        else
            value = cells.vec<V>(0, a.cell);
    };
    for (const auto& phase : program.phases) {
        for (std::size_t n = 0; n < phase[warp].stretches.size(); ++n) {
            for (const Access& a : phase[warp].stretches[n]) {
                if (a.thread != thread) continue;
                if (a.width == 1) touch(a, Vector<bf16, 1>{});
                if (a.width == 2) touch(a, Vector<bf16, 2>{});
                if (a.width == 4) touch(a, Vector<bf16, 4>{});
                if (a.width == 8) touch(a, Vector<bf16, 8>{});
            }
            if (phase[warp].seams[n] == Seam::syncwarp) __syncwarp();
            if (phase[warp].seams[n] == Seam::shuffle) __shfl_xor_sync(0xffffffffu, thread, 0);
            if (phase[warp].seams[n] == Seam::vote) __any_sync(0xffffffffu, thread);
        }
        __syncthreads();
    }
}

/// Two threads that touch one cell, one of them writing, with nothing between.
struct Conflict {
    int first, second, cell;
    bool operator==(const Conflict&) const = default;
};

std::vector<Conflict> conflicts_by_vector_clocks(const Program& program) {
    using Clock = std::vector<int>;
    std::vector<Clock> knows(program.threads, Clock(program.threads, 0));  // knows[t][u]: accesses of u before t's now
    struct Past {
        Access access;
        int number;  // of its thread's accesses
    };
    std::vector<Past> history;
    std::vector<Conflict> conflicts;
    const auto meet = [&](int first, int end) {
        Clock together(program.threads, 0);
        for (int t = first; t < end; ++t)
            for (int u = 0; u < program.threads; ++u) together[u] = std::max(together[u], knows[t][u]);
        std::fill(knows.begin() + first, knows.begin() + end, together);
    };
    for (const auto& phase : program.phases) {
        for (std::size_t w = 0; w < phase.size(); ++w)
            for (std::size_t n = 0; n < phase[w].stretches.size(); ++n) {
                for (const Access& a : phase[w].stretches[n]) {
                    for (const Past& p : history) {
                        if (!(a.write || p.access.write) || knows[a.thread][p.access.thread] >= p.number) continue;
                        const int first = std::max(a.cell, p.access.cell);
                        const int end = std::min(a.cell + a.width, p.access.cell + p.access.width);
                        for (int cell = first; cell < end; ++cell)
                            conflicts.push_back(
                                {std::min(a.thread, p.access.thread), std::max(a.thread, p.access.thread), cell});
                    }
                    history.push_back({a, ++knows[a.thread][a.thread]});
                }
                if (phase[w].seams[n] == Seam::syncwarp) meet(int(w) * 32, std::min(int(w) * 32 + 32, program.threads));
            }
        meet(0, program.threads);
    }
    return conflicts;
}

TEST(RaceOracle, TheJudgeItself) {
    const auto conflicts = [](Seam seam, int reader) {
        const Access write{.thread = 1, .cell = 2, .width = 2, .write = true};
        const Access read{.thread = reader, .cell = 3, .width = 1, .write = false};
        Program program{.threads = 64, .phases = {{{}, {}}}};
        program.phases[0][0] = {.stretches = {{write}, {}}, .seams = {seam, seam}};
        program.phases[0][std::size_t(reader / 32)].stretches.resize(2);
        program.phases[0][std::size_t(reader / 32)].stretches[1] = {read};
        program.phases[0][std::size_t(reader / 32)].seams = {seam, seam};
        return conflicts_by_vector_clocks(program);
    };
    EXPECT_EQ(conflicts(Seam::shuffle, 5), (std::vector<Conflict>{{1, 5, 3}}));
    EXPECT_TRUE(conflicts(Seam::syncwarp, 5).empty());
    EXPECT_TRUE(conflicts(Seam::shuffle, 1).empty());
    EXPECT_EQ(conflicts(Seam::syncwarp, 40), (std::vector<Conflict>{{1, 40, 3}}));
}

TEST(RaceOracle, AgreesOnRandomPrograms) {
    constexpr int kPrograms = 20000;
    std::mt19937 random(20240607);
    int races = 0;
    for (int n = 0; n < kPrograms; ++n) {
        const Program program = random_program(random);
        const auto expected = conflicts_by_vector_clocks(program);
        const auto found = fault_of({.block = unsigned(program.threads), .shared_bytes = kCells * sizeof(bf16)},
                                    [&program] { execute(program); });
        std::ostringstream text;
        text << "program " << n << ": " << program;
        SCOPED_TRACE(text.str());
        ASSERT_EQ(found.has_value(), !expected.empty()) << (found ? found->what() : "the machine saw no race");
        if (!found) continue;
        ++races;
        // What it names must be one of the real conflicts.
        const MachineError::Report& report = found->report();
        ASSERT_EQ(report.fault, Fault::race) << found->what();
        const bool real = std::ranges::any_of(expected, [&](const Conflict& c) {
            const std::string element = "cells(0, " + std::to_string(c.cell) + ")";
            return std::minmax(report.first.thread, report.second.thread) == std::minmax(c.first, c.second) &&
                   report.what.find(element) != std::string::npos;
        });
        ASSERT_TRUE(real) << found->what();
    }
    // Both verdicts must come up often, or the comparison says little.
    EXPECT_GT(races, kPrograms / 4);
    EXPECT_LT(races, kPrograms * 3 / 4);
}

}  // namespace
}  // namespace simt::testing
