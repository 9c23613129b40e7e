// FlashAttention-3's forward pass in four steps, as the test that Hopper's instructions work together: TMA, mbarriers,
// wgmma, turns by named barriers, registers handed over. One source, on a GPU of compute capability 9.0 and on the CPU
// machine.

#include <gtest/gtest.h>

#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "common/attention/forward.h"
#include "common/attention/machine.h"
#include "common/reference/cases.h"
#include "common/reference/checks.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device_profile.h"
#include "common/simt/machine/schedule.h"

namespace ladder {

// hopper_forward.cuh, compiled once per machine.
namespace cpu {
void launch_hopper_plain(const AttentionArguments&);
void launch_hopper_turns(const AttentionArguments&);
void launch_hopper_overlapped(const AttentionArguments&);
void launch_hopper_fastest(const AttentionArguments&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_hopper_plain(const AttentionArguments&);
[[gnu::weak]] void launch_hopper_turns(const AttentionArguments&);
[[gnu::weak]] void launch_hopper_overlapped(const AttentionArguments&);
[[gnu::weak]] void launch_hopper_fastest(const AttentionArguments&);
void launch_hopper_fastest(const AttentionArguments&);
}  // namespace cuda

namespace {

using namespace reference;

constexpr std::initializer_list<Mask> kMasks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};

const ForwardKernel<> kFastest{.name = "hopper_fastest",
                               .on_cpu = cpu::launch_hopper_fastest,
                               .on_cuda = cuda::launch_hopper_fastest,
                               .bytes = nullptr};

/// In bfloat16 alone.
const ForwardKernel<> kSlowerSteps[] = {{.name = "hopper_plain",
                                         .on_cpu = cpu::launch_hopper_plain,
                                         .on_cuda = cuda::launch_hopper_plain,
                                         .bytes = nullptr},
                                        {.name = "hopper_turns",
                                         .on_cpu = cpu::launch_hopper_turns,
                                         .on_cuda = cuda::launch_hopper_turns,
                                         .bytes = nullptr},
                                        {.name = "hopper_overlapped",
                                         .on_cpu = cpu::launch_hopper_overlapped,
                                         .on_cuda = cuda::launch_hopper_overlapped,
                                         .bytes = nullptr}};

AttentionEntry entry_of(const ForwardKernel<>& step) {
    return [&step](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                   const AttentionOptions& options) {
        const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
        return forward(step, q, checked_arguments(q, k, v, options, kMasks));
    };
}

/// Whether TMA can address it: rows at multiples of 16 bytes, and no stride of 0.
bool suits_tma(const AttentionCase& problem) {
    const auto suits = [](Layout layout) {
        return aligns_rows(layout) && layout != Layout::expanded_heads && layout != Layout::expanded_batch;
    };
    return problem.head_dim % 8 == 0 && suits(problem.layouts.q) && suits(problem.layouts.k) &&
           suits(problem.layouts.v);
}

/// The cases that every phase runs, those that suit TMA, in 16 bits.
std::vector<AttentionCase> cases() {
    std::vector<AttentionCase> chosen;
    std::set<std::string> known;
    for (const auto& list : {standard_cases(), causal_cases()})
        for (AttentionCase problem : list) {
            if (!suits_tma(problem)) continue;
            if (problem.dtype == torch::kFloat32) problem.dtype = torch::kBFloat16;
            problem.name = describe(problem);
            if (known.insert(problem.name).second) chosen.push_back(std::move(problem));
        }
    return chosen;
}

bool can_run() {
    if (!test_device().is_cuda() || device_limits(test_device()).has_feature(simt::Feature::wgmma)) return true;
    not_run_on_gpu("needs wgmma");
    return false;
}

class HopperForward : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(HopperForward, EachStepMatchesReference) {
    if (!can_run()) return;
    EXPECT_TRUE(matches_reference(entry_of(kFastest), GetParam(), test_device()));
    if (GetParam().dtype != torch::kBFloat16) return;
    for (const ForwardKernel<>& step : kSlowerSteps)
        EXPECT_TRUE(matches_reference(entry_of(step), GetParam(), test_device())) << step.name;
}

INSTANTIATE_TEST_SUITE_P(Cases, HopperForward, ::testing::ValuesIn(cases()), ByName{});

TEST(HopperForwardOrders, AreAllRight) {
    if (test_device().is_cuda()) return;
    const AttentionCase problem{.name = "orders",
                                .query_heads = 2,
                                .kv_heads = 1,
                                .query_length = 200,
                                .key_length = 500,
                                .head_dim = 64,
                                .dtype = torch::kBFloat16};
    for (const std::uint64_t seed : {1, 2, 3, 4}) {
        const simt::ScopedOrder order(seed);
        EXPECT_TRUE(matches_reference(entry_of(kFastest), problem, test_device())) << "seed " << seed;
        for (const ForwardKernel<>& step : kSlowerSteps)
            EXPECT_TRUE(matches_reference(entry_of(step), problem, test_device())) << step.name << ", seed " << seed;
    }
}

}  // namespace
}  // namespace ladder
