// How the CPU machine puts the accesses of a warp's lanes together into requests, where lanes take different ways.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "common/simt/counters/lane_streams.h"
#include "tests/simt/counted.h"

namespace simt::testing {
namespace {

struct Copied {
    std::uint64_t sectors, requests;
};

/// A copy of `count` floats to shared memory, as copy_tile does it; elements at which `exists` fails are zero.
template <class Exists>
Copied copy_with_guard(int threads, int count_, Exists exists) {
    Buffer<float> buffer("guarded", {count_});
    const auto x = buffer.view<1>();
    const Counters counters = count({.block = unsigned(threads), .shared_bytes = shared_bytes<float>(1, count_)}, [=] {
        const auto tile = SharedArena().matrix<float>("tile", 1, count_);
        for (int i = int(threadIdx.x); i < count_; i += int(blockDim.x)) {
            float element = 0;
            if (exists(i)) element = x(i);
            tile(0, i) = element;
        }
    });
    return {traffic_of(counters, "guarded").sectors_read, counters.shared_requests};
}

/// The sectors of the same copy, 32 elements to a request.
template <class Exists>
Copied by_hand(int count_, Exists exists) {
    Copied sum{0, 0};
    for (int first = 0; first < count_; first += 32) {  // threads are a multiple of 32 here
        std::vector<int> sectors;
        for (int i = first; i < std::min(count_, first + 32); ++i)
            if (exists(i)) sectors.push_back(i / 8);
        sectors.erase(std::unique(sectors.begin(), sectors.end()), sectors.end());
        sum.sectors += sectors.size();
        ++sum.requests;
    }
    return sum;
}

TEST(Requests, LoopsWhoseIterationsSomeLanesSkip) {
    // A row of 256 columns of which `width` exist: lanes of one warp take part in some iterations and not in others.
    for (const int width : {256, 200, 136, 100, 8, 3})
        for (const int threads : {32, 64, 128}) {
            const auto exists = [width](int i) { return i % 256 < width; };
            const Copied machine = copy_with_guard(threads, 1024, exists), expected = by_hand(1024, exists);
            EXPECT_EQ(machine.sectors, expected.sectors) << width << ", " << threads << " threads";
            EXPECT_EQ(machine.requests, expected.requests) << width << ", " << threads << " threads";
        }
}

TEST(Requests, RandomGuards) {
    std::mt19937 random(5);
    for (int repeat = 0; repeat < 20; ++repeat) {
        std::vector<char> there(777);
        for (char& t : there) t = random() % 3 != 0;
        const auto exists = [&there](int i) { return bool(there[i]); };
        const Copied machine = copy_with_guard(64, 777, exists), expected = by_hand(777, exists);
        EXPECT_EQ(machine.sectors, expected.sectors);
        EXPECT_EQ(machine.requests, expected.requests);
    }
}

TEST(Requests, LoopsThatSomeLanesLeaveSooner) {
    // 40 elements for 32 lanes: eight lanes go round once more. The second copy must not be put together with it.
    Buffer<float> a("first_copy", {40}), b("second_copy", {40});
    const auto A = a.view<1>(), B = b.view<1>();
    const Counters counters = count({.shared_bytes = 2 * 160}, [=] {
        const auto tile = SharedArena().tile<float, 2, 40>("tile");
        for (const auto& [row, X] : {std::pair(0, A), std::pair(1, B)})
            for (int i = int(threadIdx.x); i < 40; i += 32) tile(row, i) = float(X(i));
    });
    EXPECT_EQ(traffic_of(counters, "first_copy").sectors_read, 5u);
    EXPECT_EQ(traffic_of(counters, "second_copy").sectors_read, 5u);
    EXPECT_EQ(counters.shared_requests, 4u);
}

TEST(Requests, GuardsAndUnequalTripCountsAtOnce) {
    // 100 elements for 32 lanes (four lanes go round four times, the others three times), half of them guarded; twice.
    Buffer<float> a("odd_lanes", {100}), b("second_copy", {100});
    const auto A = a.view<1>(), B = b.view<1>();
    const Counters counters = count({.shared_bytes = 2 * 400}, [=] {
        const auto tile = SharedArena().tile<float, 2, 100>("tile");
        for (int i = int(threadIdx.x); i < 100; i += 32) {
            float x = 0;
            if (i % 64 < 40) x = A(i);
            tile(0, i) = x;
        }
        for (int i = int(threadIdx.x); i < 100; i += 32) {
            const float x = B(i);
            tile(1, i) = x;
        }
    });
    // 0…31, 32…39, 64…95, 96…99
    EXPECT_EQ(traffic_of(counters, "odd_lanes").sectors_read, 4u + 1 + 4 + 1);
    EXPECT_EQ(traffic_of(counters, "second_copy").sectors_read, 4u + 4 + 4 + 1);
    EXPECT_EQ(counters.shared_requests, 8u);
}

TEST(Requests, TriangularLoops) {
    // Lane n reads elements 0…n of its row of 32; in step j, lanes j…31 take part.
    Buffer<float> buffer("triangle", {32, 32});
    const auto T = buffer.view<2>();
    const Counters counters = count({}, [=] {
        for (unsigned j = 0; j <= threadIdx.x; ++j) {
            const float x = T(threadIdx.x, j);
            (void)x;
        }
    });
    EXPECT_EQ(traffic_of(counters, "triangle").bytes_read, 32u * 33 / 2 * 4);
    EXPECT_EQ(traffic_of(counters, "triangle").sectors_read, 32u * 33 / 2) << "a sector for each lane and step";
}

// --- Turns of a loop that lanes sat out ----------------------------------------------------------------------------

/// What one warp's reads of shared memory cost, and what of that is in doubt.
struct Passes {
    std::uint64_t wavefronts, in_doubt;
    friend bool operator==(const Passes&, const Passes&) = default;
    friend std::ostream& operator<<(std::ostream& out, const Passes& p) {
        return out << p.wavefronts << " wavefronts, " << p.in_doubt << " in doubt";
    }
};

void use(float value) {
    [[maybe_unused]] static volatile float sink;
    sink = value;
}

/// `body(t, lane)` reads t, whose columns are one bank each.
template <class Body>
Passes passes(Body body) {
    const Counters counters = count({.shared_bytes = shared_bytes<float>(64, 32)}, [=] {
        const auto t = SharedArena().tile<float, 64, 32>("t");
        for (int row = 0; row < 64; ++row) t(row, threadIdx.x) = 1.0f;
        __syncwarp();
        body(t, int(threadIdx.x));
    });
    EXPECT_EQ(counters.shared_wavefronts - counters.shared_read_wavefronts, 64u);
    return {counters.shared_read_wavefronts, counters.shared_wavefronts_in_doubt};
}

// Lines tell accesses apart, so no body stands inside of a macro's parentheses. A `?:` leaves no mark, unlike an `if`.
const auto last_turns = [](const auto& t, int lane) {
    for (int j = 0; j < 32; ++j) j >= lane ? use(t(j, 0)) : void();
};
const auto first_turns = [](const auto& t, int lane) {
    for (int j = 0; j < 32; ++j) j <= lane ? use(t(j, 0)) : void();
};

TEST(TurnsSatOut, LeaveAMarkAtEachIf) {
    // ncu says the same of the first three on an H100.
    const auto last_turns = [](const auto& t, int lane) {
        for (int j = 0; j < 32; ++j)
            if (j >= lane) use(t(j, 0));
    };
    const auto continued = [](const auto& t, int lane) {
        for (int j = 0; j < 32; ++j) {
            if (j < lane) continue;
            use(t(j, 0));
        }
    };
    const auto sliding_window = [](const auto& t, int lane) {
        for (int j = 0; j < 35; ++j)
            if (j >= lane && j < lane + 4) use(t(j, 0));
    };
    const auto every_other = [](const auto& t, int lane) {
        for (int j = 0; j < 32; ++j)
            if ((j + lane) % 2 == 0) use(t(j, 0));
    };
    const auto here_and_there = [](const auto& t, int lane) {
        for (int j = 0; j < 32; ++j)
            if ((j * 5 + lane * 3) % 7 < 2) use(t(j, 0));
    };
    const auto otherwise = [](const auto& t, int lane) {
        for (int j = 0; j < 32; ++j)
            if (j < lane) {
            } else {
                use(t(j, 0));
            }
    };
    const auto of_a_while = [](const auto& t, int lane) {
        int j = 0;
        while (j < 35) {
            if (const int turn = j++; turn >= lane && turn < lane + 4) use(t(turn, 0));
        }
    };
    const auto two_deep = [](const auto& t, int lane) {
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 8; ++j)
                if ((i + j) % 8 >= lane % 8) use(t(8 * i + j, 0));
    };
    EXPECT_EQ(passes(last_turns), (Passes{32, 0}));
    EXPECT_EQ(passes(continued), (Passes{32, 0}));
    EXPECT_EQ(passes(sliding_window), (Passes{35, 0}));
    EXPECT_EQ(passes(every_other), (Passes{32, 0}));
    EXPECT_EQ(passes(here_and_there), (Passes{32, 0}));
    EXPECT_EQ(passes(otherwise), (Passes{32, 0}));
    EXPECT_EQ(passes(of_a_while), (Passes{35, 0}));
    EXPECT_EQ(passes(two_deep), (Passes{32, 0}));
}

TEST(TurnsSatOut, MarksOfHelpersAndBranchesCountNothing) {
    const auto helper = [](const auto& t, int row, bool wanted) {
        if (!wanted) return;
        use(t(row, 0));
    };
    const auto calls = [=](const auto& t, int lane) {
        for (int j = 0; j < 35; ++j) helper(t, j, j >= lane && j < lane + 4);
    };
    const auto nothing = [](const auto&, int lane) {
        for (int j = 0; j < 35; ++j)
            if (j >= lane) use(1.0f);
    };
    const auto constant = [](const auto& t, int lane) {
        for (int j = 0; j < 32; ++j)
            if constexpr (sizeof(t) > 0) use(t(j, lane));
    };
    EXPECT_EQ(passes(calls), (Passes{35, 0}));
    EXPECT_EQ(passes(nothing), (Passes{0, 0}));
    EXPECT_EQ(passes(constant), (Passes{32, 0}));
}

TEST(TurnsSatOut, TwoReadingsThatCostDifferentlyAreInDoubt) {
    const auto begun_late = [](const auto& t, int lane) {
        for (int j = lane; j < 32; ++j) use(t(j, 0));
    };
    // 32 on a GPU, the first one. A lane's accesses are the same in both.
    EXPECT_EQ(passes(last_turns), (Passes{528, 528 - 32}));
    EXPECT_EQ(passes(begun_late), (Passes{528, 528 - 32})) << "right, but the machine cannot know";
    EXPECT_EQ(passes(first_turns), (Passes{32, 0})) << "each turn a word of its own: nobody could have come later";
}

TEST(TurnsSatOut, OtherAccessesOfATurnDispelTheDoubt) {
    const auto before_it = [](const auto& t, int lane) {
        for (int j = 0; j < 32; ++j) {
            use(t(j, lane));
            j >= lane ? use(t(j, 0)) : void();
        }
    };
    const auto after_it = [](const auto& t, int lane) {
        for (int j = 0; j < 35; ++j) {
            j >= lane&& j < lane + 4 ? use(t(j, 0)) : void();
            use(t(j, lane));
        }
    };
    EXPECT_EQ(passes(before_it), (Passes{32 + 32, 0}));
    EXPECT_EQ(passes(after_it), (Passes{35 + 35, 0})) << "even of a window that slides";
}

TEST(TurnsSatOut, ReadingsThatCostTheSameLeaveNoDoubt) {
    // Each lane in a bank, or in a row, of its own: it does not matter who else takes part.
    const auto own_bank = [](const auto& t, int lane) {
        for (int j = 0; j < 32; ++j)
            if (j >= lane) use(t(j, lane));
    };
    EXPECT_EQ(passes(own_bank), (Passes{32, 0}));
    Buffer<float> buffer("rows", {32, 64});
    const auto rows = buffer.view<2>();
    const Counters counters = count({}, [=] {
        for (unsigned j = 0; j < threadIdx.x; ++j) rows(threadIdx.x, 0) = float(rows(threadIdx.x, 8));
    });
    EXPECT_EQ(traffic_of(counters, "rows").sectors_read, 496u);
    EXPECT_EQ(traffic_of(counters, "rows").sectors_read_in_doubt, 0u);
}

TEST(TurnsSatOut, LanesThatShareOutElementsLeaveNoDoubt) {
    // If the lanes without a last element had sat out the first turn, that would be one sector more.
    Buffer<f16> buffer("row", {4, 256});
    const auto x = buffer.view<2>();
    for (const int n : {36, 100, 129, 250})
        for (const unsigned threads : {32u, 64u}) {
            const auto sweep = [=] {
                for (int i = int(threadIdx.x); i < n; i += int(blockDim.x)) use(float(x(0, i)));
                for (int i = n - 1 - int(threadIdx.x); i >= 0; i -= int(blockDim.x)) use(float(x(1, i)));
            };
            const TensorTraffic t = traffic_of(count({.block = threads}, sweep), "row");
            EXPECT_EQ(t.sectors_read_in_doubt, 0u) << n << " elements, " << threads << " threads";
        }
}

TEST(TurnsSatOut, InGlobalMemoryToo) {
    Buffer<float> buffer("square", {32, 32});
    const auto x = buffer.view<2>();
    const auto square = [=](auto may) {
        const auto kernel = [=] {
            const int lane = int(threadIdx.x);
            for (int j = 0; j < 32; ++j) may(j, lane) ? void(x(j, lane) = 1.0f + float(x(j, lane))) : void();
        };
        return traffic_of(count({}, kernel), "square");
    };
    for (const auto may : {+[](int j, int lane) { return j >= lane; }, +[](int j, int lane) { return j > 2 * lane; }}) {
        const TensorTraffic t = square(may);
        EXPECT_FALSE(is_known(t.sectors_read, t.sectors_read_in_doubt)) << t.sectors_read_in_doubt;
        EXPECT_FALSE(is_known(t.sectors_written, t.sectors_written_in_doubt)) << t.sectors_written_in_doubt;
    }
    const TensorTraffic all = square([](int, int) { return true; });
    EXPECT_EQ(all.sectors_read, 32u * 4);
    EXPECT_EQ(all.sectors_read_in_doubt + all.sectors_written_in_doubt, 0u);
}

TEST(TurnsSatOut, DoubtsOfTwoLoopsDoNotCancel) {
    const auto cheaper_early = [](const auto& t, int lane) {
        for (int j = 0; j < 32; ++j) j <= lane ? use(t(j / 2, 0)) : void();
    };
    const auto both = [=](const auto& t, int lane) {
        last_turns(t, lane);
        __syncwarp();
        cheaper_early(t, lane);
    };
    const Passes early = passes(cheaper_early);
    EXPECT_EQ(early.wavefronts, 32u);
    EXPECT_GT(early.in_doubt, 200u);
    EXPECT_EQ(passes(both), (Passes{528 + 32, 528 - 32 + early.in_doubt}));
}

TEST(TurnsSatOut, InLoopsTooLongToTryAllPlaces) {
    constexpr int step = 2048;
    const auto long_loop = [](const auto& t, int lane) {
        for (int j = 0; j < 32 * step; ++j) j >= step* lane ? use(t(j / step, 0)) : void();
    };
    EXPECT_EQ(passes(long_loop), (Passes{528 * step, (528 - 32) * step}));
}

TEST(TurnsSatOut, EquallyManyTurnsWithoutAMarkAreTakenForTheSame) {
    // 35 requests on a GPU, each a wavefront. docs/counters.md admits that this is missed.
    const auto sliding_window = [](const auto& t, int lane) {
        for (int j = 0; j < 35; ++j) j >= lane&& j < lane + 4 ? use(t(j, 0)) : void();
    };
    EXPECT_EQ(passes(sliding_window), (Passes{4 * 32, 0}));
}

TEST(Requests, TwoSidesOfABranch) {
    Buffer<float> buffer("branch", {64});
    const auto x = buffer.view<1>();
    const auto kernel = [=](unsigned split) {
        return [=] {
            for (int i = 0; i < 3; ++i) {
                if (threadIdx.x < split)
                    x(threadIdx.x) = 1.0f;
                else
                    x(threadIdx.x + 32) = 2.0f;
                x(threadIdx.x) = 3.0f;
            }
        };
    };
    EXPECT_EQ(traffic_of(count({}, kernel(0)), "branch").sectors_written, 3u * (4 + 4));
    EXPECT_EQ(traffic_of(count({}, kernel(16)), "branch").sectors_written, 3u * (2 + 2 + 4));
    EXPECT_EQ(traffic_of(count({}, kernel(4)), "branch").sectors_written, 3u * (1 + 4 + 4));
}

TEST(Requests, SeveralAccessesOnOneLine) {
    Buffer<float> buffer("pair", {64});
    const auto x = buffer.view<1>();
    const Counters counters = count({}, [=] {
        for (int i = 0; i < 2; ++i) x(threadIdx.x) = float(x(threadIdx.x)) + float(x(threadIdx.x + 32));
    });
    EXPECT_EQ(traffic_of(counters, "pair").sectors_read, 2u * 8);
    EXPECT_EQ(traffic_of(counters, "pair").sectors_written, 2u * 4);
}

TEST(Requests, LanesThatReturnAndPartialWarps) {
    Buffer<float> buffer("some", {256});
    const auto x = buffer.view<1>();
    const Counters returned = count({.block = 64}, [=] {
        if (threadIdx.x % 32 >= 8) return;
        x(threadIdx.x) = 1.0f;
        __syncwarp();
        x(threadIdx.x) = 2.0f;
    });
    EXPECT_EQ(traffic_of(returned, "some").sectors_written, 2u * 2);
    const Counters partial = count({.block = 48}, [=] { x(threadIdx.x) = 1.0f; });
    EXPECT_EQ(traffic_of(partial, "some").sectors_written, 6u);
}

TEST(Requests, LaneOrderDoesNotMatter) {
    // After a collective the machine goes on with another lane than the first; wavefronts of 16-byte accesses go by
    // groups of eight lanes, counted from lane 0.
    const auto kernel = [](bool meet) {
        return [=] {
            const auto tile = SharedArena().tile<float, 8, 32>("tile");
            if (meet)
                for (int i = 0; i < 3; ++i) __shfl_xor_sync(0xffffffffu, 1, 1);
            const int lane = int(threadIdx.x);
            tile.vec<float4>(lane % 8, lane / 8 * 4) = float4{};  // eight lanes of a pass: eight rows, one bank group
        };
    };
    const Counters before = count({.shared_bytes = 1024}, kernel(false)),
                   after = count({.shared_bytes = 1024}, kernel(true));
    EXPECT_EQ(before.shared_wavefronts, 4u * 8);
    EXPECT_EQ(after.shared_wavefronts, before.shared_wavefronts);
}

TEST(CommonSupersequence, ContainsBothAndIsShortest) {
    using Sequence = std::vector<std::uint32_t>;
    const auto contains = [](const Sequence& whole, const Sequence& part) {
        std::size_t n = 0;
        for (const std::uint32_t x : whole) n += n < part.size() && part[n] == x;
        return n == part.size();
    };
    EXPECT_EQ(shortest_common_supersequence({}, {}), Sequence{});
    EXPECT_EQ(shortest_common_supersequence({1, 2}, {}), (Sequence{1, 2}));
    EXPECT_EQ(shortest_common_supersequence({1, 2, 3}, {1, 4, 3}).size(), 4u);
    EXPECT_EQ(shortest_common_supersequence({1, 2, 1, 2}, {2, 1, 2, 1}).size(), 5u);
    std::mt19937 random(6);
    for (int repeat = 0; repeat < 300; ++repeat) {
        Sequence a(random() % 8), b(random() % 8);
        for (auto* s : {&a, &b})
            for (auto& x : *s) x = random() % 3;
        const Sequence both = shortest_common_supersequence(a, b);
        EXPECT_TRUE(contains(both, a) && contains(both, b));
        // The longest common subsequence, by trying every subsequence of a.
        std::size_t common = 0;
        for (unsigned subset = 0; subset < 1u << a.size(); ++subset) {
            Sequence part;
            for (std::size_t i = 0; i < a.size(); ++i)
                if (subset >> i & 1) part.push_back(a[i]);
            if (contains(b, part)) common = std::max(common, part.size());
        }
        EXPECT_EQ(both.size(), a.size() + b.size() - common);
    }
}

}  // namespace
}  // namespace simt::testing
