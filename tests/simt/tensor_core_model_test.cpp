// What the CPU machine says about wrong uses of ldmatrix and mma.sync, and what it counts for right ones.

#include <gtest/gtest.h>

#include "common/simt/device/device.h"
#include "tests/simt/fault_checks.h"

namespace simt::testing {
namespace {

constexpr Shape kOneWarp{.block = 32, .shared_bytes = 32 * 16};
constexpr Shape kTwoWarps{.block = 64, .shared_bytes = 32 * 16};

using Row = WideVector<f16>;

/// The tile that most kernels here work on: a row of 16 bytes for each lane.
auto K_j() { return SharedArena().tile<f16, 32, 8>("K_j"); }

int lane() { return int(threadIdx.x) % 32; }

void store_row(int row) { K_j().vec<Row>(row, 0) = Row{}; }

// --- what ldmatrix reads --------------------------------------------------------------------------------------------

/// Every lane stores the row of the lane before it, and passes its own to ldmatrix.
auto store_then_load(bool barrier) {
    return [=] {
        K_j().vec<Row>((lane() + 1) % 32, 0) = Row{};  // @row store
        if (barrier) __syncwarp();
        FragmentA<f16> a;
        ldmatrix(a, K_j().vec<Row>(lane(), 0));  // @row load
    };
}

TEST(Ldmatrix, NeedsABarrierAfterTheStoresOfOtherLanes) {
    expect_clean(kOneWarp, store_then_load(true));
    expect_fault(kOneWarp, store_then_load(false),
                 {.fault = Fault::race,
                  .first = {0, "row load"},
                  .second = {31, "row store"},
                  .says = {"thread 0 reads K_j(0, 0), which thread 31 wrote", "__syncwarp()"}});
}

TEST(Ldmatrix, NeedsABarrierBeforeTheRowsAreOverwritten) {
    const auto kernel = [](bool barrier) {
        return [=] {
            store_row(lane());
            __syncwarp();
            std::uint32_t registers[2];
            ldmatrix(registers, K_j().vec<Row>(31 - lane(), 0));  // @early load
            if (barrier) __syncwarp();
            if (lane() == 31) K_j()(31, 4) = f16(0.0f);  // @early store
        };
    };
    expect_clean(kOneWarp, kernel(true));

    expect_fault(kOneWarp, kernel(false),
                 {.fault = Fault::race,
                  .first = {31, "early store"},
                  .second = {0, "early load"},
                  .says = {"thread 31 writes K_j(31, 4), which thread 0 read"}});
}

TEST(Ldmatrix, NamesTheThreadWhoseRowIsUninitialised) {
    const auto kernel = [] {
        if (lane() != 13) store_row(lane());
        __syncwarp();
        FragmentB<f16> b;
        ldmatrix(b, K_j().vec<Row>(lane(), 0));  // @hollow load
    };
    expect_fault(kOneWarp, kernel,
                 {.fault = Fault::uninitialised_read, .first = {13, "hollow load"}, .says = {"K_j(13, 0)"}});
}

TEST(Ldmatrix, WatchesEveryElementOfARow) {
    for (int missing = 0; missing < 8; ++missing) {
        const auto error = fault_of(kOneWarp, [=] {
            for (int c = 0; c < 8; ++c)
                if (lane() != 2 || c != missing) K_j()(lane(), c) = f16(1.0f);
            __syncwarp();
            std::uint32_t registers[1];
            ldmatrix_trans(registers, K_j().vec<Row>(lane(), 0));
        });
        ASSERT_TRUE(error);
        EXPECT_NE(std::string(error->what()).find("K_j(2, " + std::to_string(missing) + ")"), std::string::npos);
    }
}

TEST(Ldmatrix, DoesNotReadTheRowsOfUnusedLanes) {
    for (const int used : {8, 16}) {
        expect_clean(kOneWarp, [=] {
            if (lane() < used) store_row(lane());
            __syncwarp();
            std::uint32_t one[1], two[2];
            if (used == 8)
                ldmatrix(one, K_j().vec<Row>(lane(), 0));
            else
                ldmatrix(two, K_j().vec<Row>(lane(), 0));
        });
    }
}

TEST(Ldmatrix, RowsLieAtMultiplesOf16Bytes) {
    const auto kernel = [] {
        const auto tile = SharedArena().tile<f16, 8, 8, 12>("V_j");
        std::uint32_t registers[1];
        ldmatrix(registers, tile.vec<Row>(lane() % 8, 0));  // @crooked load
    };
    expect_fault(kOneWarp, kernel,
                 {.fault = Fault::misaligned, .first = {1, "crooked load"}, .says = {"V_j(1, 0)", "16 bytes"}});
}

TEST(Ldmatrix, DoesNotReadWhatACopyIsFilling) {
    Buffer<f16> in("in", {32, 8});
    const auto view = in.view<2>();
    const auto kernel = [=] {
        copy_async(K_j().vec<Row>(lane(), 0), view.vec<Row>(lane(), 0));  // @filling copy
        commit_copies();
        __syncwarp();
        FragmentA<f16> a;
        ldmatrix(a, K_j().vec<Row>(31 - lane(), 0));  // @hasty load
    };
    expect_fault(kOneWarp, kernel,
                 {.fault = Fault::copy_in_flight,
                  .first = {0, "hasty load"},
                  .second = {31, "filling copy"},
                  .says = {"thread 0 reads K_j(31, 0)", "thread 31 must call wait_copies<0>() first"}});
}

// --- the whole warp -------------------------------------------------------------------------------------------------

TEST(WholeWarp, LanesThatGoToABarrierInstead) {
    const auto kernel = [] {
        FragmentC d{};
        const FragmentA<f16> a{};
        const FragmentB<f16> b{};
        if (lane() < 16) mma_m16n8k16(d, a, b);  // @half mma
        __syncthreads();                         // @half barrier
    };
    expect_fault(kOneWarp, kernel,
                 {.fault = Fault::deadlock,
                  .first = {0, "half mma"},
                  .second = {16, "half barrier"},
                  .says = {"waits in mma.sync for lanes 0xffff0000"}});
}

TEST(WholeWarp, LanesThatMeetAnotherInstruction) {
    const auto kernel = [] {
        std::uint32_t registers[4];
        if (lane() < 16)
            ldmatrix(registers, K_j().vec<Row>(lane(), 0));  // @first half
        else
            ldmatrix(registers, K_j().vec<Row>(lane(), 0));  // @second half
    };
    expect_fault(kOneWarp, kernel,
                 {.fault = Fault::collective_divergence,
                  .first = {16, "second half"},
                  .second = {0, "first half"},
                  .says = {"lane 16 calls ldmatrix", "lane 0 waits in ldmatrix", "on another line"}});

    const auto sizes = [] {
        std::uint32_t one[1], two[2];
        const auto row = [] { return K_j().vec<Row>(0, 0); };
        lane() < 16 ? ldmatrix(one, row()) : ldmatrix(two, row());  // @two sizes
    };
    expect_fault(kOneWarp, sizes,
                 {.fault = Fault::collective_divergence,
                  .first = {16, "two sizes"},
                  .second = {0, "two sizes"},
                  .says = {"lane 0 waits in ldmatrix with mask 0xffffffff, in another form"}});
}

TEST(WholeWarp, LanesThatHaveReturned) {
    const auto kernel = [] {
        if (lane() >= 30) return;
        FragmentC d{};
        mma_m16n8k16(d, FragmentA<bf16>{}, FragmentB<bf16>{});  // @deserted mma
    };
    expect_fault(kTwoWarps, kernel,
                 {.fault = Fault::invalid_collective,
                  .first = {0, "deserted mma"},
                  .says = {"mma.sync of warp 0 without lanes 0xc0000000", "multiple of 32 threads"}});
}

TEST(WholeWarp, LanesThatNeverWere) {
    const auto kernel = [] {
        store_row(lane());
        __syncthreads();
        FragmentB<f16> b;
        ldmatrix(b, K_j().vec<Row>(lane() % 16, 0));  // @small block
    };
    const Shape shape{.block = 16, .shared_bytes = kOneWarp.shared_bytes};
    expect_fault(shape, kernel,
                 {.fault = Fault::invalid_collective,
                  .first = {15, "small block"},
                  .says = {"ldmatrix of warp 0 without lanes 0xffff0000"}});
}

// --- devices --------------------------------------------------------------------------------------------------------

TEST(TensorCoreDevices, OldOnesLackTheInstructions) {
    const auto load = [] {
        store_row(lane());
        __syncwarp();
        std::uint32_t registers[4];
        ldmatrix(registers, K_j().vec<Row>(lane(), 0));  // @old load
    };
    const auto multiply = [] {
        FragmentC d{};
        mma_m16n8k16(d, FragmentA<f16>{}, FragmentB<f16>{});  // @old mma
    };
    for (const char* old : {"gtx1080", "v100"}) {
        const ScopedCpuDevice device(device_from(device_profile(old)));
        expect_fault(kOneWarp, load,
                     {.fault = Fault::unsupported,
                      .first = {31, "old load"},
                      .says = {"faulty_kernel needs ldmatrix, which " + cpu_device().name +
                               " does not have; these have: t4, "}});
        expect_fault(kOneWarp, multiply,
                     {.fault = Fault::unsupported,
                      .first = {0, "old mma"},
                      .says = {"faulty_kernel needs mma.m16n8k16, which " + cpu_device().name + " does not have"}});
    }
    const ScopedCpuDevice t4(device_from(device_profile("t4")));
    expect_clean(kOneWarp, load);
    expect_fault(kOneWarp, multiply,
                 {.fault = Fault::unsupported,
                  .first = {0, "old mma"},
                  .says = {"mma.m16n8k16, which NVIDIA T4 does not have"}});
}

// --- counters -------------------------------------------------------------------------------------------------------

template <int pitch, int matrices>
Counters counters_of_ldmatrix() {
    const LaunchLog log;
    run({.block = 32, .shared_bytes = 32 * pitch * sizeof(f16)}, [] {
        const auto tile = SharedArena().tile<f16, 32, 8, pitch>("tile");
        if (lane() == 0)
            for (int r = 0; r < 32; ++r) tile.template vec<Row>(r, 0) = Row{};
        __syncwarp();
        std::uint32_t registers[matrices];
        ldmatrix(registers, tile.template vec<Row>(lane(), 0));
    });
    Counters counters = log.total();
    counters.shared_requests -= 32;  // of the stores, one lane each
    counters.shared_wavefronts -= 32;
    counters.shared_wavefronts_ideal -= 32;
    return counters;
}

TEST(TensorCoreCounters, OneWavefrontAMatrixWithoutBankConflicts) {
    const auto expect = [](const Counters& counters, unsigned matrices, unsigned wavefronts_each) {
        EXPECT_EQ(counters.shared_bytes_read, matrices * 8 * 16);
        EXPECT_EQ(counters.shared_requests, 1u);
        EXPECT_EQ(counters.shared_wavefronts_ideal, matrices);
        EXPECT_EQ(counters.shared_wavefronts, matrices * wavefronts_each);
    };
    expect(counters_of_ldmatrix<8, 1>(), 1, 1);
    expect(counters_of_ldmatrix<8, 2>(), 2, 1);
    expect(counters_of_ldmatrix<8, 4>(), 4, 1);
    expect(counters_of_ldmatrix<64, 4>(), 4, 8);  // rows 128 bytes apart: all in the same four banks
    expect(counters_of_ldmatrix<72, 4>(), 4, 1);  // 16 bytes of padding spread them
    expect(counters_of_ldmatrix<32, 2>(), 2, 4);
}

}  // namespace
}  // namespace simt::testing
