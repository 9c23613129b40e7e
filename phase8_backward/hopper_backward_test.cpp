#include "phase8_backward/hopper_backward.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "common/reference/checks.h"
#include "common/reference/gradient_cases.h"
#include "common/reference/gradient_comparison.h"
#include "common/reference/gradient_oracle.h"
#include "common/reference/oracle.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device_profile.h"

namespace ladder {
namespace {

using namespace reference;

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN

bool can_run() { return test_device().is_cpu() || device_limits(test_device()).has_feature(simt::Feature::wgmma); }

void check(const AttentionCase& problem, bool with_dlse) {
    SCOPED_TRACE(describe(problem));
    const BackwardInputs g = make_backward_inputs(problem, test_device());
    const AttentionGradients got = hopper_backward(g.dout, g.q, g.k, g.v, g.out, g.lse, g.options,
                                                   with_dlse ? std::optional(g.dlse) : std::nullopt);
    const Comparison verdict = compare_gradients(got, g.q, g.k, g.v, {g.out, g.lse}, g.dout, g.options,
                                                 with_dlse ? std::optional(g.dlse) : std::nullopt);
    EXPECT_TRUE(verdict.passed) << verdict.report;
}

class HopperBackwardStandard : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(HopperBackwardStandard, MatchesOracle) {
    if (!can_run()) GTEST_SKIP() << "this device has no wgmma";
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
    AttentionCase problem = GetParam();
    if (problem.dtype == torch::kFloat32) problem.dtype = torch::kBFloat16;
    if (problem.head_dim > 128) problem.head_dim = 128;
    check(problem, std::hash<std::string>()(problem.name) % 2);
}

INSTANTIATE_TEST_SUITE_P(Unmasked, HopperBackwardStandard, ::testing::ValuesIn(standard_cases()), ByName{});
INSTANTIATE_TEST_SUITE_P(Causal, HopperBackwardStandard, ::testing::ValuesIn(causal_cases()), ByName{});

}  // namespace
}  // namespace ladder
