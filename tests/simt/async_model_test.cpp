// What the CPU machine says about wrong asynchronous copies, what it counts for right ones, and what it leaves alone.

#include <gtest/gtest.h>

#include "common/simt/device/device.h"
#include "tests/simt/fault_checks.h"

namespace simt::testing {
namespace {

constexpr int kColumns = 128;
constexpr Shape kFourWarps{.block = kColumns, .shared_bytes = 2 * kColumns * sizeof(float)};

auto ring() { return SharedArena().tile<float, 2, kColumns>("ring"); }

/// in[t, c] = 1000 t + c
Buffer<float>& numbers(Buffer<float>& in) {
    for (std::int64_t i = 0; i < in.extents[0] * in.extents[1]; ++i)
        in.base[i] = float(i / in.extents[1] * 1000 + i % in.extents[1]);
    return in;
}

/// Where a double-buffered pipeline goes wrong.
enum class Mistake {
    none,
    fetches_late,
    waits_for_too_little,
    no_barrier_after_wait,
    no_barrier_before_fetch,
    no_commit
};

/// The first warp fetches row after row, two in flight; every thread sums what another one's lane fetched.
auto pipeline(Mistake mistake, GlobalTensor<float, 2> in, float* sums) {
    return [=] {
        const int t = int(threadIdx.x), rows = int(in.extent(0));
        float sum = 0;
        const auto fetch = [&](int k) {
            if (t < 32 && k < rows)
                copy_async(ring().vec<float4>(k % 2, 4 * t), in.vec<float4>(k, 4 * t));  // @pipeline copy
            if (mistake != Mistake::no_commit) commit_copies();
        };
        fetch(0);
        for (int k = 0; k < rows; ++k) {
            if (mistake != Mistake::fetches_late) fetch(k + 1);
            if (mistake == Mistake::waits_for_too_little)
                wait_copies<2>();  // @pipeline wait
            else if (mistake == Mistake::fetches_late)
                wait_copies<0>();
            else
                wait_copies<1>();
            if (mistake != Mistake::no_barrier_after_wait) __syncthreads();
            if (mistake == Mistake::fetches_late) fetch(k + 1);
            const float x = ring()(k % 2, kColumns - 1 - t);  // @pipeline read
            sum += x;
            if (mistake != Mistake::no_barrier_before_fetch) __syncthreads();
        }
        sums[t] = sum;
    };
}

TEST(AsyncPipeline, RightOnesPass) {
    Buffer<float> in("in", {10, kColumns});
    const auto view = numbers(in).view<2>();
    for (const Mistake none : {Mistake::none, Mistake::fetches_late}) {
        std::vector<float> sums(kColumns);
        const auto error = fault_of(kFourWarps, pipeline(none, view, sums.data()));
        ASSERT_FALSE(error) << error->what();
        for (int t = 0; t < kColumns; ++t) EXPECT_EQ(sums[t], 45 * 1000 + 10 * (kColumns - 1 - t));
    }
}

TEST(AsyncPipeline, WaitsForTooLittle) {
    Buffer<float> in("in", {10, kColumns});
    std::vector<float> sums(kColumns);
    expect_fault(kFourWarps, pipeline(Mistake::waits_for_too_little, numbers(in).view<2>(), sums.data()),
                 {.fault = Fault::copy_in_flight,
                  .first = {127, "pipeline read"},
                  .second = {0, "pipeline copy"},
                  .says = {"thread 127 reads ring(0, 0), which an asynchronous copy of thread 0 is still filling",
                           "thread 0 waited last at " + place("pipeline wait") +
                               ", for all but the newest 2 of its groups, and 1 is newer",
                           "wait_copies<1>()", "__syncthreads()"}});
}

TEST(AsyncPipeline, NoBarrierAfterTheWait) {
    Buffer<float> in("in", {10, kColumns});
    std::vector<float> sums(kColumns);
    // Thread 0 runs first, and finds nothing where thread 31 is about to copy to.
    const auto error =
        fault_of(kFourWarps, pipeline(Mistake::no_barrier_after_wait, numbers(in).view<2>(), sums.data()));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->report().fault, Fault::uninitialised_read) << error->what();

    const auto wait_then_read = [&] {
        const int t = int(threadIdx.x);
        if (t == 1) copy_async(ring().vec<float4>(0, 4), in.view<2>().vec<float4>(0, 4));  // @unordered copy
        wait_all_copies();
        float x = 0;
        if (t == 40) x = ring()(0, 5);  // @unordered read
        (void)x;
    };
    expect_fault(kFourWarps, wait_then_read,
                 {.fault = Fault::race,
                  .first = {40, "unordered read"},
                  .second = {1, "unordered copy"},
                  .says = {"thread 40 reads ring(0, 5), which thread 1 wrote", "__syncthreads()"}});
}

TEST(AsyncPipeline, NoBarrierBeforeTheNextFetch) {
    Buffer<float> in("in", {10, kColumns});
    std::vector<float> sums(kColumns);
    const auto error =
        fault_of(kFourWarps, pipeline(Mistake::no_barrier_before_fetch, numbers(in).view<2>(), sums.data()));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->report().fault, Fault::race) << error->what();
    EXPECT_EQ(error->report().first.site.text(), place("pipeline copy")) << error->what();
    EXPECT_EQ(error->report().second.site.text(), place("pipeline read")) << error->what();
}

TEST(AsyncPipeline, NoCommit) {
    Buffer<float> in("in", {10, kColumns});
    std::vector<float> sums(kColumns);
    expect_fault(
        kFourWarps, pipeline(Mistake::no_commit, numbers(in).view<2>(), sums.data()),
        {.fault = Fault::copy_in_flight,
         .first = {127, "pipeline read"},
         .second = {0, "pipeline copy"},
         .says = {"no commit_copies() of thread 0 has followed the copy", "call commit_copies() after the copies"}});
}

// --- touching what is in flight -------------------------------------------------------------------------------------

TEST(InFlight, NotEvenTheIssuingThreadMayTouchIt) {
    Buffer<float> in("in", {1, kColumns});
    const auto view = numbers(in).view<2>();
    expect_fault(kFourWarps,
                 [=] {
                     if (threadIdx.x != 3) return;
                     copy_async(ring().vec<float4>(0, 12), view.vec<float4>(0, 12));  // @own copy
                     commit_copies();
                     const float x = ring()(0, 13);  // @own read
                     (void)x;
                 },
                 {.fault = Fault::copy_in_flight,
                  .first = {3, "own read"},
                  .second = {3, "own copy"},
                  .says = {"thread 3 reads ring(0, 13)", "thread 3 must call wait_copies<0>() first"}});
    expect_fault(kFourWarps,
                 [=] {
                     if (threadIdx.x != 3) return;
                     copy_async(ring().vec<float4>(0, 12), view.vec<float4>(0, 12));  // @overwritten copy
                     ring()(0, 15) = 0.0f;                                            // @overwriting store
                 },
                 {.fault = Fault::copy_in_flight,
                  .first = {3, "overwriting store"},
                  .second = {3, "overwritten copy"},
                  .says = {"thread 3 writes ring(0, 15)"}});
}

TEST(InFlight, ABarrierDoesNotLandACopy) {
    Buffer<float> in("in", {1, kColumns});
    const auto view = numbers(in).view<2>();
    expect_fault(kFourWarps,
                 [=] {
                     if (threadIdx.x == 3)
                         copy_async(ring().vec<float4>(0, 12), view.vec<float4>(0, 12));  // @barred copy
                     commit_copies();
                     __syncthreads();
                     if (threadIdx.x == 70) ring()(0, 12) = 1.0f;  // @barred store
                     __syncthreads();
                     wait_copies<0>();
                 },
                 {.fault = Fault::copy_in_flight,
                  .first = {70, "barred store"},
                  .second = {3, "barred copy"},
                  .says = {"thread 70 writes ring(0, 12)", "thread 3 has not waited yet",
                           "thread 3 must call wait_copies<0>() first", "__syncthreads()"}});
}

TEST(InFlight, TwoCopiesToOnePlace) {
    Buffer<float> in("in", {1, kColumns});
    const auto view = numbers(in).view<2>();
    expect_fault(kFourWarps,
                 [=] {
                     const int t = int(threadIdx.x);
                     if (t == 2) copy_async(ring()(0, 9), view(0, 9));                          // @narrow copy
                     if (t == 5) copy_async(ring().vec<float4>(0, 8), view.vec<float4>(0, 8));  // @wide copy
                     __syncwarp();
                     wait_all_copies();
                 },
                 {.fault = Fault::copy_in_flight,
                  .first = {5, "wide copy"},
                  .second = {2, "narrow copy"},
                  .says = {"thread 5 writes ring(0, 9)"}});
}

TEST(InFlight, ZerosTooAreOnTheirWay) {
    Buffer<float> in("in", {1, kColumns});
    const auto view = numbers(in).view<2>();
    expect_fault(kFourWarps,
                 [=] {
                     if (threadIdx.x != 0) return;
                     copy_async_or_zero(ring().vec<float4>(0, 0), view, 1, 0);  // @zero copy
                     const float x = ring()(0, 0);                              // @zero read
                     (void)x;
                 },
                 {.fault = Fault::copy_in_flight,
                  .first = {0, "zero read"},
                  .second = {0, "zero copy"},
                  .says = {"ring(0, 0)"}});
}

TEST(InFlight, EveryElementOfANarrowTypeIsWatched) {
    Buffer<std::uint16_t> in("in", {1, 8});
    const auto view = in.view<2>();
    for (int touched = 0; touched < 8; ++touched) {
        const auto error = fault_of({.shared_bytes = 16}, [=] {
            if (threadIdx.x != 0) return;
            const auto tile = SharedArena().tile<std::uint16_t, 1, 8>("tile");
            copy_async(tile.vec<WideVector<std::uint16_t>>(0, 0), view.vec<WideVector<std::uint16_t>>(0, 0));
            tile(0, touched) = std::uint16_t{1};
        });
        ASSERT_TRUE(error);
        EXPECT_NE(std::string(error->what()).find("tile(0, " + std::to_string(touched) + ")"), std::string::npos);
    }
}

TEST(InFlight, LeavesNothingBehindInTheNextBlock) {
    Buffer<float> in("in", {1, kColumns});
    const auto view = numbers(in).view<2>();
    const auto kernel = [=](bool wrong) {
        return [=] {
            copy_async(ring()(0, int(threadIdx.x)), view(0, int(threadIdx.x)));
            if (!wrong) wait_all_copies();
            const float x = ring()(0, int(threadIdx.x));
            ring()(0, int(threadIdx.x)) = x;
        };
    };
    const int workers = cpu_workers();
    set_cpu_workers(1);  // so that all blocks run in the same memory
    EXPECT_TRUE(fault_of(kFourWarps, kernel(true)));
    const Shape blocks{.grid = 3, .block = kColumns, .shared_bytes = kFourWarps.shared_bytes};
    expect_clean(blocks, kernel(false));
    set_cpu_workers(workers);
}

// --- waits ----------------------------------------------------------------------------------------------------------

TEST(Waits, LandAllGroupsButTheNewest) {
    Buffer<float> in("in", {1, kColumns});
    const auto view = numbers(in).view<2>();
    std::vector<float> seen;
    const auto error = fault_of({.block = 32, .shared_bytes = kFourWarps.shared_bytes}, [&, view] {
        if (threadIdx.x != 0) return;
        for (int group = 0; group < 4; ++group) {
            for (int i = 0; i < group; ++i) copy_async(ring()(0, 4 * group + i), view(0, 4 * group + i));
            commit_copies();
        }
        wait_copies<2>();  // groups 0, which is empty, and 1
        seen.push_back(ring()(0, 4));
        wait_copies<1>();
        seen.push_back(ring()(0, 9));
        copy_async(ring()(0, 1), view(0, 1));  // in no group
        wait_all_copies();
        seen.push_back(ring()(0, 14));
        seen.push_back(ring()(0, 1));
    });
    ASSERT_FALSE(error) << error->what();
    EXPECT_EQ(seen, (std::vector<float>{4, 9, 14, 1}));
}

TEST(Waits, OneThreadsWaitDoesNotLandAnothersCopy) {
    Buffer<float> in("in", {1, kColumns});
    const auto view = numbers(in).view<2>();
    expect_fault(kFourWarps,
                 [=] {
                     if (threadIdx.x == 0) copy_async(ring()(0, 0), view(0, 0));  // @lonely copy
                     commit_copies();
                     if (threadIdx.x != 0) wait_copies<0>();
                     __syncthreads();
                     float x = 0;
                     if (threadIdx.x == 1) x = ring()(0, 0);  // @lonely read
                     (void)x;
                     __syncthreads();
                 },
                 {.fault = Fault::copy_in_flight,
                  .first = {1, "lonely read"},
                  .second = {0, "lonely copy"},
                  .says = {"thread 0 must call wait_copies<0>()"}});
}

TEST(Waits, ForgottenAtTheEnd) {
    Buffer<float> in("in", {1, kColumns});
    const auto view = numbers(in).view<2>();
    const auto kernel = [=](bool commits) {
        return [=] {
            if (threadIdx.x == 6) copy_async(ring()(0, 6), view(0, 6));  // @forgotten copy
            if (commits) commit_copies();
        };
    };
    expect_fault(kFourWarps, kernel(true),
                 {.fault = Fault::copy_not_awaited,
                  .first = {6, "forgotten copy"},
                  .says = {"thread 6 returns", "ring(0, 6)", "wait_copies<0>()"}});
    expect_fault(kFourWarps, kernel(false),
                 {.fault = Fault::copy_not_awaited, .first = {6, "forgotten copy"}, .says = {"never committed"}});
}

TEST(Waits, SourceOverwrittenBefore) {
    Buffer<float> in("in", {1, kColumns});
    const auto view = numbers(in).view<2>();
    expect_fault(kFourWarps,
                 [=] {
                     if (threadIdx.x == 6) copy_async(ring()(0, 6), view(0, 6));  // @stale copy
                     __syncthreads();
                     if (threadIdx.x == 50) view(0, 6) = -1.0f;  // @stale write
                     __syncthreads();
                     wait_all_copies();
                 },
                 {.fault = Fault::global_race,
                  .first = {50, "stale write"},
                  .second = {6, "stale copy"},
                  .says = {"thread 50 writes in(0, 6), which an asynchronous copy of thread 6 is still reading",
                           "thread 6 has not waited for it", "a barrier after the wait"}});
}

/// What becomes of the source of a copy of thread 6, between its issue and its wait and after it.
enum class Overwrites { by_equal_value, and_restores, by_itself, its_vector, after_wait, under_other_name };

auto copy_of_a_source(Overwrites how, GlobalTensor<float, 2> source, GlobalTensor<float, 2> other_name) {
    return [=] {
        const bool copies = threadIdx.x == 6, writes = threadIdx.x == 50;
        if (copies) copy_async(ring().vec<float4>(0, 8), source.vec<float4>(0, 8));  // @source copy
        __syncthreads();
        float before = 0.0f;
        if (writes) before = source(0, 9);
        if (writes && how == Overwrites::by_equal_value) source(0, 9) = before;  // @equal write
        if (writes && how == Overwrites::and_restores) {
            source(0, 9) = -1.0f;  // @write to restore
            source(0, 9) = before;
        }
        if (copies && how == Overwrites::by_itself) source(0, 11) += 1.0f;  // @own write
        if (writes && how == Overwrites::its_vector)
            source.vec<float4>(0, 8) = make_float4(8, 9, 10, 11);                    // @vector write
        if (writes && how == Overwrites::under_other_name) other_name(0, 8) = 8.0f;  // @alias write
        if (how != Overwrites::after_wait) __syncthreads();
        wait_all_copies();                                                  // @source wait
        if (writes && how == Overwrites::after_wait) source(0, 10) = 1.0f;  // @unordered write
    };
}

TEST(Waits, WhoeverWritesTheSourceRacesWithTheCopyWhateverTheValue) {
    Buffer<float> in("in", {1, kColumns});
    const auto view = numbers(in).view<2>();
    const std::int64_t extents[] = {1, kColumns}, strides[] = {kColumns, 1};
    const GlobalTensor<float, 2> alias(in.base, extents, strides, tensor_id("alias"));
    struct Case {
        Overwrites how;
        int writer;
        const char *write, *copy;
        std::vector<std::string> says;
    };
    for (const Case& c :
         {Case{Overwrites::by_equal_value, 50, "equal write", "source copy", {"thread 50 writes in(0, 9)"}},
          Case{Overwrites::and_restores, 50, "write to restore", "source copy", {"thread 50 writes in(0, 9)"}},
          Case{Overwrites::by_itself, 6, "own write", "source copy", {"thread 6 writes in(0, 11)"}},
          Case{Overwrites::its_vector, 50, "vector write", "source copy", {"thread 50 writes in(0, 8)"}},
          Case{Overwrites::under_other_name, 50, "alias write", "source copy", {"writes alias(0, 8)", "as in(0, 8)"}},
          Case{Overwrites::after_wait, 50, "unordered write", "source wait", {"in(0, 10), which thread 6 read"}}})
        expect_fault(
            kFourWarps, copy_of_a_source(c.how, view, alias),
            {.fault = Fault::global_race, .first = {c.writer, c.write}, .second = {6, c.copy}, .says = c.says});
}

TEST(Waits, TheSourceMayBeWrittenBeforeTheCopyAndAfterTheWait) {
    Buffer<float> in("in", {1, kColumns});
    const auto view = numbers(in).view<2>();
    expect_clean(kFourWarps, [=] {
        const int t = int(threadIdx.x), column = 4 * (t % 32);
        for (int round = 0; round < 3; ++round) {
            if (t < 32) view.vec<float4>(0, column) = make_float4(1, 2, 3, 4);
            __syncthreads();
            if (t < 32) copy_async(ring().vec<float4>(0, column), view.vec<float4>(0, column));
            const float seen = view(0, column + 2);  // anybody may read what is being copied
            EXPECT_EQ(seen, 3.0f);
            wait_all_copies();
            if (t < 32) view(0, column) = 5.0f;  // its own wait is all that the copying thread needs
            __syncthreads();
            if (t >= 96) view(0, 4 * (t - 96) + 1) = 6.0f;
            __syncthreads();
        }
    });
}

TEST(Waits, ACopyThatIsLeftBehindHoldsNoSourceInTheNextBlock) {
    Buffer<float> in("in", {1, kColumns});
    const auto view = numbers(in).view<2>();
    const Workers one(1);  // so that all blocks run in the same memory
    EXPECT_TRUE(fault_of(kFourWarps, [=] { copy_async(ring()(0, int(threadIdx.x)), view(0, int(threadIdx.x))); }));
    expect_clean(kFourWarps, [=] { view(0, int(threadIdx.x)) = 1.0f; });
}

TEST(Waits, SeveralCopiesOfOneSourceHoldItUntilTheLast) {
    Buffer<float> in("in", {1, kColumns});
    const auto view = numbers(in).view<2>();
    const auto kernel = [=](bool last_waits) {
        return [=] {
            const int t = int(threadIdx.x);
            if (t < 2) copy_async(ring()(t, 0), view(0, 0));  // @shared source
            if (t == 0 || last_waits) wait_all_copies();
            __syncthreads();
            if (t == 9) view(0, 0) = 1.0f;  // @write between
            __syncthreads();
            wait_all_copies();
        };
    };
    expect_clean(kFourWarps, kernel(true));
    expect_fault(kFourWarps, kernel(false),
                 {.fault = Fault::global_race,
                  .first = {9, "write between"},
                  .second = {1, "shared source"},
                  .says = {"copy of thread 1 is still reading"}});
}

// No line of the writer is known.
TEST(Waits, ABarePointerOverwritesTheSource) {
    Buffer<float> in("in", {1, kColumns});
    const auto view = numbers(in).view<2>();
    expect_fault(
        kFourWarps,
        [=, bare = in.base] {
            if (threadIdx.x == 6) copy_async(ring()(0, 6), view(0, 6));  // @bare copy
            __syncthreads();
            if (threadIdx.x == 50) bare[6] = -1.0f;
            __syncthreads();
            wait_all_copies();  // @bare wait
        },
        {.fault = Fault::global_race,
         .first = {6, "bare wait"},
         .second = {6, "bare copy"},
         .says = {"in(0, 6), which an asynchronous copy reads, was overwritten", "to ring(0, 6)", "a bare pointer"}});
}

// --- addresses and devices ------------------------------------------------------------------------------------------

TEST(AsyncAddresses, OutOfBoundsAndMisalignedAreFound) {
    Buffer<float> in("in", {4, 6});
    const auto view = in.view<2>();
    const auto fault = [&](auto copy) {
        const auto error = fault_of({.block = 1, .shared_bytes = kFourWarps.shared_bytes}, [=] {
            copy();
            wait_all_copies();
        });
        return error ? std::optional(error->report().fault) : std::nullopt;
    };
    EXPECT_EQ(fault([=] { copy_async(ring()(0, 0), view(4, 0)); }), Fault::out_of_bounds);
    EXPECT_EQ(fault([=] { copy_async(ring()(2, 0), view(0, 0)); }), Fault::out_of_bounds);
    EXPECT_EQ(fault([=] { copy_async(ring().vec<float4>(0, 2), view.vec<float4>(0, 0)); }), Fault::misaligned);
    EXPECT_EQ(fault([=] { copy_async(ring().vec<float4>(0, 0), view.vec<float4>(1, 0)); }), Fault::misaligned);
    // Zeros stand in for what lies beyond the end, not before the beginning, nor for half a vector.
    EXPECT_EQ(fault([=] { copy_async_or_zero(ring().vec<float4>(0, 0), view, 4, 0); }), std::nullopt);
    EXPECT_EQ(fault([=] { copy_async_or_zero(ring().vec<float2>(0, 0), view, 1, 6); }), std::nullopt);
    EXPECT_EQ(fault([=] { copy_async_or_zero(ring().vec<float4>(0, 0), view, -1, 0); }), Fault::out_of_bounds);
    EXPECT_EQ(fault([=] { copy_async_or_zero(ring().vec<float4>(0, 0), view, 0, 4); }), Fault::out_of_bounds);
}

TEST(AsyncDevices, OldOnesHaveNoAsynchronousCopies) {
    Buffer<float> in("in", {1, kColumns});
    const auto view = numbers(in).view<2>();
    const auto copy = [=] {
        copy_async(ring()(0, int(threadIdx.x)), view(0, int(threadIdx.x)));  // @unsupported copy
        wait_all_copies();
    };
    for (const char* old : {"gtx1080", "v100", "t4"}) {
        const ScopedCpuDevice device(device_from(device_profile(old)));
        expect_fault(kFourWarps, copy,
                     {.fault = Fault::unsupported,
                      .first = {0, "unsupported copy"},
                      .says = {"faulty_kernel needs asynchronous copies (cp.async), which " + cpu_device().name +
                               " does not have; these have: a100, "}});
    }
    for (const char* known : {"a100", "h200", "rtx5060ti"}) {
        const ScopedCpuDevice device(device_from(device_profile(known)));
        expect_clean(kFourWarps, copy);
    }
}

TEST(AsyncDevices, HostsCanRefuseThemFirst) {
    const Device t4 = device_from(device_profile("t4"));
    EXPECT_NO_THROW(require_feature(t4, Feature::ldmatrix, "fa2_tensor_core"));
    try {
        require_feature(t4, Feature::mma, "fa2_tensor_core");
        ADD_FAILURE() << "accepted";
    } catch (const std::runtime_error& error) {
        EXPECT_EQ(
            std::string(error.what()),
            "fa2_tensor_core needs mma.m16n8k16, which NVIDIA T4 does not have; these have: a100, rtx3090, rtx4090, "
            "h100, h200, b200, rtx5060ti");
    }
}

// --- counters -------------------------------------------------------------------------------------------------------

TEST(AsyncCounters, CountTheReadOfTheSourceAndTheWriteOfTheTile) {
    Buffer<float> in("in", {2, kColumns});
    const auto view = numbers(in).view<2>();
    const LaunchLog log;
    run({.block = 32, .shared_bytes = kFourWarps.shared_bytes}, [=] {
        const int t = int(threadIdx.x);
        for (int r = 0; r < 3; ++r)  // the third row is zeros: nothing is read
            copy_async_or_zero(ring().vec<float4>(r % 2, 4 * t), view, r, 4 * t), wait_all_copies();
    });
    const Counters counters = log.total();
    ASSERT_EQ(counters.tensors.size(), 1u);
    EXPECT_EQ(counters.tensors[0].tensor, "in");
    EXPECT_EQ(counters.tensors[0].bytes_read, 2u * kColumns * 4);
    EXPECT_EQ(counters.tensors[0].sectors_read, 2u * kColumns * 4 / 32);
    EXPECT_EQ(counters.tensors[0].bytes_written, 0u);
    EXPECT_EQ(counters.shared_bytes_written, 3u * kColumns * 4);
    EXPECT_EQ(counters.shared_requests, 3u);
    EXPECT_EQ(counters.shared_wavefronts, 3u * 4);
    EXPECT_EQ(counters.shared_bytes_read, 0u);
}

}  // namespace
}  // namespace simt::testing
