#include "phase8_backward/mma_backward.h"

#include <gtest/gtest.h>

#include "common/attention/outputs.h"
#include "common/reference/checks.h"
#include "common/reference/gradient_cases.h"
#include "common/reference/gradient_comparison.h"
#include "common/reference/test_device.h"

namespace ladder {
namespace {
using namespace reference;
const PoisonOutputs poison_outputs;

TEST(MmaBackward, Quick) {
    for (const int64_t head_dim : {128, 64, 32, 96, 192, 256})
        for (const Mask mask : {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left})
            for (const DqGather gather : {DqGather::second_pass, DqGather::atomics}) {
                AttentionCase problem{.query_heads = 2,
                                      .kv_heads = 1,
                                      .query_length = 150,
                                      .key_length = 197,
                                      .head_dim = head_dim,
                                      .dtype = torch::kBFloat16,
                                      .options = {.scale = 0.13, .mask = mask},
                                      .seed = 5};
                const BackwardInputs g = make_backward_inputs(problem, test_device());
                const AttentionGradients r =
                    mma_backward(g.dout, g.q, g.k, g.v, g.out, g.lse, g.options, {.gather = gather}, g.dlse);
                const Comparison verdict =
                    compare_gradients(r, g.q, g.k, g.v, {g.out, g.lse}, g.dout, g.options, g.dlse);
                EXPECT_TRUE(verdict.passed) << describe(problem) << int(gather) << verdict.report;
            }
}
}  // namespace
}  // namespace ladder
