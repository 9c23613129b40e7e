// What the CPU machine says about wrong uses of wgmma's registers, groups and warpgroups.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "common/simt/report/leniency.h"
#include "tests/simt/product_kernels.h"

namespace simt::testing {
namespace {

using ProductRegisters = OnHopper;
using ProductGroups = OnHopper;
using Warpgroups = OnHopper;
using Leniency = OnHopper;

// --- accumulators ---------------------------------------------------------------------------------------------------

TEST_F(ProductRegisters, AnAccumulatorIsReadBeforeTheWait) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        begin_products(S);
        multiply_once(S, t);  // @read product
        commit_products();
        const float x = S[5];  // @early read
        wait_products<0>(S);
        static_cast<void>(x);
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::product_in_flight,
                          .first = {kSome, "early read"},
                          .second = {kSome, "read product"},
                          .says = {" uses element 5 of an accumulator, row ",
                                   ", which a product is still computing; nobody has waited for its group yet",
                                   "wait_products<0>() first"}});
}

TEST_F(ProductRegisters, AnAccumulatorIsWrittenBeforeTheCommit) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        begin_products(S);
        multiply_once(S, t);  // @open product
        S[0] = 1.0f;          // @early write
        commit_products();
        wait_products<0>(S);
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::product_in_flight,
                          .first = {kSome, "early write"},
                          .second = {kSome, "open product"},
                          .says = {"no commit_products() has followed the product", "then wait_products<0>()"}});
}

TEST_F(ProductRegisters, TheWaitLeavesTheProductUnderWay) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S, O;
        begin_products(S, O);
        multiply_once(S, t);
        commit_products();
        multiply_once(O, t);  // @second group
        commit_products();
        wait_products<1>(S);  // @short wait
        S[0] *= 2.0f;
        O[0] *= 2.0f;  // @of the second group
        wait_products<0>(O);
    };
    expect_fault_by_some(
        kOneGroup, kernel,
        {.fault = Fault::product_in_flight,
         .first = {kSome, "of the second group"},
         .second = {kSome, "second group"},
         .says = {"the last wait, at " + place("short wait") +
                      ", was for all but the newest 1 of the groups, and 0 are newer than the product's",
                  "wait_products<0>() first"}});
}

TEST_F(ProductRegisters, AnAccumulatorIsCopiedUnderWay) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        begin_products(S);
        multiply_once(S, t);  // @copied product
        commit_products();
        const Accumulator<64> copy = S;  // @copy
        wait_products<0>(S);
        static_cast<void>(copy);
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::product_in_flight,
                          .first = {kSome, "copy"},
                          .second = {kSome, "copied product"},
                          .says = {" copies an accumulator, which a product is still computing"}});
}

TEST_F(ProductRegisters, AnAccumulatorGoesOutOfScopeUnderWay) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        {
            Accumulator<64> S;
            begin_products(S);
            multiply_once(S, t);  // @lost product
            commit_products();
        }
        wait_products<0>();  // @after scope
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::product_in_flight,
                          .first = {kSome, "after scope"},
                          .second = {kSome, "lost product"},
                          .says = {"has gone out of scope while a product was computing it"}});
}

TEST_F(ProductRegisters, AnAccumulatorIsWrittenThroughAReference) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        float& element = S[7];
        begin_products(S);
        multiply_once(S, t);
        element = 1.0f;
        commit_products();
        wait_products<0>(S);  // @sees reference
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::product_in_flight,
                          .first = {kSome, "sees reference"},
                          .says = {"element 7 of an accumulator of thread ", "through a reference or a pointer"}});
}

TEST_F(ProductRegisters, TheWaitDoesNotNameTheAccumulator) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S, O;
        begin_products(S, O);
        multiply_once(S, t);
        multiply_once(O, t);
        commit_products();
        wait_products<0>(O);  // @names another
        S[0] += 1.0f;         // @unnamed
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::product_in_flight,
                          .first = {kSome, "unnamed"},
                          .second = {kSome, "names another"},
                          .says = {"its product is done, but no wait_products() has named the accumulator"}});
}

TEST_F(ProductRegisters, AProductWithoutAFence) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;    // @made
        multiply_once(S, t);  // @unfenced
        commit_products();
        wait_products<0>(S);
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::unready_registers,
                          .first = {kSome, "unfenced"},
                          .second = {kSome, "made"},
                          .says = {"a product uses an accumulator of thread ",
                                   "and no begin_products() has named it since", "wgmma.fence"}});
}

TEST_F(ProductRegisters, AnAccumulatorIsScaledAfterTheFence) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> O;
        for (int i = 0; i < O.size; ++i) O[i] = 1.0f;
        begin_products(O);
        for (int i = 0; i < O.size; ++i) O[i] *= 2.0f;  // @late scaling
        multiply_once(O, t, true);                      // @of late scaling
        commit_products();
        wait_products<0>(O);
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::unready_registers,
                          .first = {kSome, "of late scaling"},
                          .second = {kSome, "late scaling"},
                          .says = {" used it at " + place("late scaling")}});
}

TEST_F(ProductRegisters, AProductAddsToElementsThatNobodyHasWritten) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> O;  // @garbage
        for (int i = 0; i + 1 < O.size; ++i) O[i] = 0.0f;
        begin_products(O);
        multiply_once(O, t, true);  // @adds to garbage
        commit_products();
        wait_products<0>(O);
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::unready_registers,
                          .first = {kSome, "adds to garbage"},
                          .second = {kSome, "garbage"},
                          .says = {"adds to the accumulator of thread 0, whose element 31 nobody has written"}});
}

TEST_F(ProductRegisters, AnElementThatIsNotThere) {
    const auto kernel = [] {
        Accumulator<64> S;
        for (int i = 0; i <= S.size; ++i) S[i] = 0.0f;  // @one more
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::out_of_bounds,
                          .first = {kSome, "one more"},
                          .says = {"element 32 of an accumulator, of which a thread has 32"}});
}

// --- operands in registers ------------------------------------------------------------------------------------------

TEST_F(ProductRegisters, AnOperandIsWrittenBeforeTheWait) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> O;
        OperandA<f16> P = zeros();
        begin_products(O, P);
        multiply(O, P, mn_major(t.V_j, 0, 0), false);  // @operand product
        commit_products();
        P.set(2, 0);  // @early set
        wait_products<0>(O);
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::product_in_flight,
                          .first = {kSome, "early set"},
                          .second = {kSome, "operand product"},
                          .says = {" writes register 2 of an operand A, which a product may still be reading"}});
}

TEST_F(ProductRegisters, AnOperandIsMadeAnewBeforeTheWait) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S, O;
        for (int i = 0; i < S.size; ++i) S[i] = 0.0f;
        OperandA<f16> P[2];
        for (int k = 0; k < 2; ++k) P[k] = to_operand<f16>(S, k);
        begin_products(O, P);
        for (int k = 0; k < 2; ++k) multiply(O, P[k], mn_major(t.V_j, 16 * k, 0), k > 0);  // @first weights
        commit_products();
        P[1] = to_operand<f16>(S, 3);  // @next weights
        wait_products<0>(O);
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::product_in_flight,
                          .first = {kSome, "next weights"},
                          .second = {kSome, "first weights"},
                          .says = {"of an operand A, which a product may still be reading",
                                   "or use other registers for the next product"}});
}

TEST_F(ProductRegisters, TheFenceDoesNotNameTheOperand) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> O;
        OperandA<f16> P = zeros();  // @unnamed operand
        begin_products(O);
        multiply(O, P, mn_major(t.V_j, 0, 0), false);  // @of unnamed operand
        commit_products();
        wait_products<0>(O);
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::unready_registers,
                          .first = {kSome, "of unnamed operand"},
                          .second = {kSome, "unnamed operand"},
                          .says = {"a product uses an operand A of thread "}});
}

TEST_F(ProductRegisters, ARegisterOfTheOperandIsMissing) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> O;
        OperandA<f16> P;  // @three registers
        for (int r = 0; r < 3; ++r) P.set(r, 0);
        begin_products(O, P);
        multiply(O, P, mn_major(t.V_j, 0, 0), false);  // @of three registers
        commit_products();
        wait_products<0>(O);
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::unready_registers,
                          .first = {kSome, "of three registers"},
                          .second = {kSome, "three registers"},
                          .says = {"whose register 3 nobody has written"}});
}

// --- groups ---------------------------------------------------------------------------------------------------------

TEST_F(ProductGroups, NobodyWaits) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        begin_products(S);
        multiply_once(S, t);  // @never waited
        commit_products();
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::product_not_awaited,
                          .first = {kSome, "never waited"},
                          .says = {" returns while a product is under way, whose group it has never waited for"}});
}

TEST_F(ProductGroups, NobodyCommits) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        begin_products(S);
        multiply_once(S, t);  // @never committed
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::product_not_awaited,
                          .first = {kSome, "never committed"},
                          .says = {"which it never committed to a group"}});
}

TEST_F(ProductGroups, TheWaitComesWithoutACommit) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        begin_products(S);
        multiply_once(S, t);  // @in no group
        wait_products<0>(S);  // @waits for nothing
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::product_not_awaited,
                          .first = {kSome, "waits for nothing"},
                          .second = {kSome, "in no group"},
                          .says = {"waits for nothing: the products under way are in no group yet",
                                   "commit_products() closes a group"}});
}

TEST_F(ProductGroups, TheWaitNamesWhatItDoesNotWaitFor) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S, O;
        begin_products(S, O);
        multiply_once(S, t);
        commit_products();
        multiply_once(O, t);  // @newest
        commit_products();
        wait_products<1>(O);  // @names the newest
        wait_products<0>(S, O);
    };
    expect_fault_by_some(
        kOneGroup, kernel,
        {.fault = Fault::product_not_awaited,
         .first = {kSome, "names the newest"},
         .second = {kSome, "newest"},
         .says = {"wait_products<1>() of thread ",
                  " names an accumulator, but does not wait for its product: it "
                  "leaves the newest 1 of the groups under way, and only 0 are newer than the product's",
                  "wait_products<0>() waits for it"}});
}

TEST_F(ProductGroups, TheWaitNamesWhatIsInNoGroup) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S, O;
        begin_products(S, O);
        multiply_once(S, t);
        commit_products();
        multiply_once(O, t);     // @open
        wait_products<0>(S, O);  // @names the open one
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::product_not_awaited,
                          .first = {kSome, "names the open one"},
                          .second = {kSome, "open"},
                          .says = {"no commit_products() has followed it, and a wait covers closed groups only"}});
}

TEST_F(ProductGroups, TheWaitNamesAnOperandThatIsStillRead) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S, O;
        OperandA<f16> P = zeros();
        begin_products(S, O, P);
        multiply_once(S, t);
        commit_products();
        multiply(O, P, mn_major(t.V_j, 0, 0), false);  // @reads operand
        commit_products();
        wait_products<1>(S, P);  // @names operand
        wait_products<0>(O);
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::product_not_awaited,
                          .first = {kSome, "names operand"},
                          .second = {kSome, "reads operand"},
                          .says = {"names an operand A, but does not wait for its product"}});
}

// --- warpgroups -----------------------------------------------------------------------------------------------------

TEST_F(Warpgroups, TwoOfTheFourWarps) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        begin_products(S);
        if (warp() < 2) multiply_once(S, t);  // @half a warpgroup
        __syncthreads();                      // @other half
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::deadlock,
                          .first = {kSome, "half a warpgroup"},
                          .says = {"wgmma.mma_async, for warps 2, 3 of their warpgroup"}});
}

TEST_F(Warpgroups, ABlockThatIsTooSmall) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        begin_products(S);
        multiply_once(S, t);  // @three warps
    };
    expect_fault_by_some({.block = 96, .shared_bytes = kOneGroup.shared_bytes}, kernel,
                         {.fault = Fault::invalid_collective,
                          .first = {64, "three warps"},
                          .says = {"is not whole: the block has 3 warps", "a multiple of 128 threads"}});
}

TEST_F(Warpgroups, FourWarpsThatBeginInTheMiddle) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        if (warp() < 2 || warp() > 5) return;
        Accumulator<64> S;
        begin_products(S);
        multiply_once(S, t);  // @askew
    };
    expect_fault_by_some(kTwoGroups, kernel,
                         {.fault = Fault::deadlock,
                          .first = {64, "askew"},
                          .second = {128, "askew"},
                          .says = {"for warps 0, 1 of their warpgroup", "for warps 6, 7 of their warpgroup"}});
}

TEST_F(Warpgroups, ALaneThatStaysAway) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        begin_products(S);
        if (threadIdx.x != 70) multiply_once(S, t);  // @without a lane
        __syncthreads();                             // @the lane
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::deadlock, .first = {kSome, "without a lane"}, .second = {70, "the lane"}});
}

TEST_F(Warpgroups, OneLaneCommits) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        begin_products(S);
        multiply_once(S, t);
        if (lane() == 0) commit_products();  // @commits alone
        wait_products<0>(S);                 // @the others
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::collective_divergence,
                          .first = {64, "commits alone"},
                          .second = {94, "the others"},
                          .says = {"lane 0 calls wgmma.commit_group", "lane 30 waits in wgmma.wait_group"}});
}

TEST_F(Warpgroups, EachWarpHasADescriptorOfItsOwn) {
    const auto kernel = [] {
        SharedArena arena;
        const auto Q_i = arena.panels<f16, 128, 64, Swizzle::b128>("Q_i");
        const auto K_j = arena.panels<f16, 64, 64, Swizzle::b128>("K_j");
        fill(Q_i);
        fill(K_j);
        show_to_async();
        __syncthreads();
        Accumulator<64> S;
        begin_products(S);
        multiply(S, k_major(Q_i, 16 * warp(), 0), k_major(K_j, 0, 0), false);  // @own rows
        commit_products();
        wait_products<0>(S);
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::invalid_collective,
                          .first = {32, "own rows"},
                          .second = {0, "own rows"},
                          .says = {"thread 32 passes another descriptor of A than thread 0"}});
}

TEST_F(Warpgroups, OneThreadDoesNotAccumulate) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        for (int i = 0; i < S.size; ++i) S[i] = 0.0f;
        begin_products(S);
        multiply_once(S, t, threadIdx.x != 99);  // @own accumulate
        commit_products();
        wait_products<0>(S);
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::invalid_collective,
                          .first = {99, "own accumulate"},
                          .second = {0, "own accumulate"},
                          .says = {"thread 99 passes another value of `accumulate` than thread 0"}});
}

TEST_F(Warpgroups, OtherDevicesHaveNone) {
    const auto kernel = [] {
        Accumulator<64> S;
        begin_products(S);  // @old device
    };
    const ScopedCpuDevice device(device_from(device_profile("a100")));
    expect_fault_by_some(
        kOneGroup, kernel,
        {.fault = Fault::unsupported, .first = {kSome, "old device"}, .says = {"faulty_kernel needs wgmma"}});
}

// --- where one looks away ------------------------------------------------------------------------------------------

TEST_F(Leniency, ShowsWhatComesOutOfWrongProducts) {
    const ScopedLeniency lenient;
    int early = 0, late = 0;
    run(kOneGroup, [&] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        multiply_once(S, t);  // without a fence
        commit_products();
        early += std::isnan(S[3]);
        wait_products<0>();  // which does not name it
        late += S[3] == 0.0f;
    });
    EXPECT_EQ(early, 128);
    EXPECT_EQ(late, 128);
    run(kOneGroup, [] {  // beyond the end of shared memory, and of the tile
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        for (const std::uint32_t address : {3 * 8192 - 1024u, 5 * 8192u}) {
            const MatrixDescriptor stray{address, 16, 1024, 0, Swizzle::b128};
            begin_products(S);
            multiply(S, k_major(t.Q_i, 0, 0), MatrixOperand<f16, Major::k>::from_bits(stray.bits()), false);
            commit_products();
            wait_products<0>(S);
        }
    });
}

}  // namespace
}  // namespace simt::testing
