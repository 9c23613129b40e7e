#include <gtest/gtest.h>

#include <cmath>

#include "common/attention/outputs.h"
#include "common/reference/checks.h"
#include "common/reference/test_device.h"
#include "phase3_fa2/fa2.h"

namespace ladder {
namespace {

using namespace reference;

// Found by ./ladder fuzz --seed 1 --problem 2.
TEST(Fa2ForwardFuzz, F32Q1K65D1) {
    const PoisonOutputs poison_outputs;
    AttentionCase problem;
    problem.key_length = 65;
    problem.head_dim = 1;
    EXPECT_TRUE(matches_reference(fa2_forward, problem, test_device()));
}

}  // namespace
}  // namespace ladder

#include <gtest/gtest.h>

#include <cmath>

#include "common/attention/outputs.h"
#include "common/reference/checks.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device.h"
#include "phase1_naive/naive.h"

namespace ladder {
namespace {

using namespace reference;

// Found by ./ladder fuzz --seed 1 --problem 2.
TEST(QBlockedAttentionFuzz, F16B2H4Kv2Q3K7D24OneHugeLogitKBshdVShiftedScale0p125BlockRows5OnGtx10803Workers) {
    const PoisonOutputs poison_outputs;
    const simt::ScopedCpuDevice device(simt::device_from(simt::device_profile("gtx1080")));
    const simt::ScopedCpuWorkers workers(3);
    AttentionCase problem;
    problem.batch = 2;
    problem.query_heads = 4;
    problem.kv_heads = 2;
    problem.query_length = 3;
    problem.key_length = 7;
    problem.head_dim = 24;
    problem.dtype = torch::kFloat16;
    problem.family = Family::one_huge_logit;
    problem.layouts.k = Layout::bshd;
    problem.layouts.v = Layout::shifted;
    problem.options.scale = 0.125;
    problem.seed = 5;
    const AttentionEntry entry = [&](const auto& q, const auto& k, const auto& v, const auto& options) {
        return q_blocked_attention(q, k, v, options, 5);
    };
    EXPECT_TRUE(matches_reference(entry, problem, test_device()));
}

}  // namespace
}  // namespace ladder

#include <gtest/gtest.h>

#include <cmath>

#include "common/attention/outputs.h"
#include "common/reference/call_memory.h"
#include "common/reference/checks.h"
#include "common/reference/test_device.h"
#include "phase3_fa2/fa2.h"

namespace ladder {
namespace {

using namespace reference;

// Found by ./ladder fuzz --seed 1 --problem 2.
TEST(Fa2ForwardFuzz, F32B2Q1K65D1K10640MinusInfWithAndWithoutBatchNeighbours) {
    const PoisonOutputs poison_outputs;
    AttentionCase problem;
    problem.batch = 2;
    problem.key_length = 65;
    problem.head_dim = 1;
    const AttentionEntry entry = [&](const auto& q, const auto& k, const auto& v, const auto& options) {
        return fa2_forward(q, k, v, options);
    };
    const auto inputs = make_inputs(problem, test_device());
    const auto& [q, k, v] = inputs;
    k[1][0][64][0].fill_(-INFINITY);
    const AttentionResult result = entry(q, k, v, problem.options);
    const Comparison verdict = compare_attention(result, q, k, v, problem.options);
    EXPECT_TRUE(verdict.passed) << verdict.report;
    const auto alone = [](const torch::Tensor& batch) { return batch.narrow(0, 1, 1); };
    const AttentionResult again = entry(alone(q), alone(k), alone(v), problem.options);
    EXPECT_TRUE(same_bits(alone(result.out), again.out));
    EXPECT_TRUE(same_bits(alone(result.lse), again.lse));
}

}  // namespace
}  // namespace ladder

#include <gtest/gtest.h>

#include <cmath>

#include "common/attention/outputs.h"
#include "common/reference/call_memory.h"
#include "common/reference/checks.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device.h"
#include "phase3_fa2/fa2.h"

namespace ladder {
namespace {

using namespace reference;

// Found by ./ladder fuzz --seed 1 --problem 2.
TEST(Fa2ForwardFuzz, Bf16Q1K65D1CalledTwice) {
    const PoisonOutputs poison_outputs;
    AttentionCase problem;
    problem.key_length = 65;
    problem.head_dim = 1;
    problem.dtype = torch::kBFloat16;
    const AttentionEntry entry = [&](const auto& q, const auto& k, const auto& v, const auto& options) {
        return fa2_forward(q, k, v, options);
    };
    const auto inputs = make_inputs(problem, test_device());
    const auto& [q, k, v] = inputs;
    const AttentionResult result = entry(q, k, v, problem.options);
    const Comparison verdict = compare_attention(result, q, k, v, problem.options);
    EXPECT_TRUE(verdict.passed) << verdict.report;
    const simt::ScopedCpuWorkers other_workers(2);
    const AttentionResult again = entry(q, k, v, problem.options);
    EXPECT_TRUE(same_bits(result.out, again.out));
    EXPECT_TRUE(same_bits(result.lse, again.lse));
}

}  // namespace
}  // namespace ladder

#include <gtest/gtest.h>

#include <cmath>

#include "common/attention/outputs.h"
#include "common/reference/checks.h"
#include "common/reference/test_device.h"
#include "phase5_decoding/decode.h"

namespace ladder {
namespace {

using namespace reference;

// Found by ./ladder fuzz --seed 1 --problem 2.
TEST(FlashDecodeFuzz, F32B2Q2K300D8BottomRightSplits3KvLengths0129) {
    const PoisonOutputs poison_outputs;
    AttentionCase problem;
    problem.batch = 2;
    problem.query_length = 2;
    problem.key_length = 300;
    problem.head_dim = 8;
    problem.options.mask = Mask::causal_bottom_right;
    const torch::Tensor kv_lengths = torch::tensor({0, 129}, torch::kInt64).to(test_device());
    const AttentionEntry entry = [&](const auto& q, const auto& k, const auto& v, const auto& options) {
        return flash_decode(q, k, v, {.attention = options, .kv_lengths = kv_lengths, .splits = 3});
    };
    EXPECT_TRUE(matches_reference(entry, problem, test_device(), Lse::present, kv_lengths));
}

}  // namespace
}  // namespace ladder

#include <gtest/gtest.h>

#include <cmath>

#include "common/attention/outputs.h"
#include "common/reference/call_memory.h"
#include "common/reference/checks.h"
#include "common/reference/test_device.h"
#include "phase5_decoding/decode.h"

namespace ladder {
namespace {

using namespace reference;

// Found by ./ladder fuzz --seed 1 --problem 2.
TEST(FlashDecodeFuzz, F32B2Q2K300D8BottomRightSplits3KvLengths0129WithTwoSplitCounts) {
    const PoisonOutputs poison_outputs;
    AttentionCase problem;
    problem.batch = 2;
    problem.query_length = 2;
    problem.key_length = 300;
    problem.head_dim = 8;
    problem.options.mask = Mask::causal_bottom_right;
    torch::Tensor kv_lengths = torch::tensor({0, 129}, torch::kInt64).to(test_device());
    const AttentionEntry entry = [&](const auto& q, const auto& k, const auto& v, const auto& options) {
        return flash_decode(q, k, v, {.attention = options, .kv_lengths = kv_lengths, .splits = 3});
    };
    auto inputs = make_inputs(problem, test_device());
    poison_past_lengths(inputs, kv_lengths);
    const auto& [q, k, v] = inputs;
    const AttentionResult result = entry(q, k, v, problem.options);
    const Comparison verdict = compare_attention(result, q, k, v, problem.options, kv_lengths);
    EXPECT_TRUE(verdict.passed) << verdict.report;
    const AttentionEntry with_other_splits = [&](const auto& q, const auto& k, const auto& v, const auto& options) {
        return flash_decode(q, k, v, {.attention = options, .kv_lengths = kv_lengths, .splits = 4});
    };
    const AttentionResult again = with_other_splits(q, k, v, problem.options);
    const Comparison again_verdict = compare_attention(again, q, k, v, problem.options, kv_lengths);
    EXPECT_TRUE(again_verdict.passed) << again_verdict.report;
}

}  // namespace
}  // namespace ladder

#include <gtest/gtest.h>

#include <cmath>

#include "common/attention/outputs.h"
#include "common/reference/call_memory.h"
#include "common/reference/checks.h"
#include "common/reference/test_device.h"
#include "phase5_decoding/decode.h"

namespace ladder {
namespace {

using namespace reference;

// Found by ./ladder fuzz --seed 1 --problem 2.
TEST(FlashDecodeFuzz, F32B2Q2K300D8BottomRightSplits3KvLengths0129WithAndWithoutBatchNeighbours) {
    const PoisonOutputs poison_outputs;
    AttentionCase problem;
    problem.batch = 2;
    problem.query_length = 2;
    problem.key_length = 300;
    problem.head_dim = 8;
    problem.options.mask = Mask::causal_bottom_right;
    problem.seed = 1;
    torch::Tensor kv_lengths = torch::tensor({0, 129}, torch::kInt64).to(test_device());
    const AttentionEntry entry = [&](const auto& q, const auto& k, const auto& v, const auto& options) {
        return flash_decode(q, k, v, {.attention = options, .kv_lengths = kv_lengths, .splits = 3});
    };
    auto inputs = make_inputs(problem, test_device());
    poison_past_lengths(inputs, kv_lengths);
    const auto& [q, k, v] = inputs;
    const AttentionResult result = entry(q, k, v, problem.options);
    const Comparison verdict = compare_attention(result, q, k, v, problem.options, kv_lengths);
    EXPECT_TRUE(verdict.passed) << verdict.report;
    const auto alone = [](const torch::Tensor& batch) { return batch.narrow(0, 1, 1); };
    kv_lengths = alone(kv_lengths);
    const AttentionResult again = entry(alone(q), alone(k), alone(v), problem.options);
    EXPECT_TRUE(same_bits(alone(result.out), again.out));
    EXPECT_TRUE(same_bits(alone(result.lse), again.lse));
}

}  // namespace
}  // namespace ladder

#include <gtest/gtest.h>

#include <cmath>

#include "common/attention/outputs.h"
#include "common/reference/comparison.h"
#include "common/reference/inputs.h"
#include "common/reference/test_device.h"
#include "phase0_softmax/softmax.h"

namespace ladder {
namespace {

using namespace reference;

// Found by ./ladder fuzz --seed 1 --problem 2.
TEST(SafeSoftmaxFuzz, F32Q3K33D16RisingScoresQ00232NaN) {
    const PoisonOutputs poison_outputs;
    AttentionCase problem;
    problem.query_length = 3;
    problem.key_length = 33;
    problem.head_dim = 16;
    problem.family = Family::rising_scores;
    const torch::Tensor x = make_scores(problem, test_device());
    x[2][32].fill_(NAN);
    const torch::Tensor y = safe_softmax(x);
    const Comparison verdict = compare_softmax(y, x);
    EXPECT_TRUE(verdict.passed) << verdict.report;
}

}  // namespace
}  // namespace ladder

#include <gtest/gtest.h>

#include <cmath>

#include "common/attention/outputs.h"
#include "common/reference/call_memory.h"
#include "common/reference/comparison.h"
#include "common/reference/inputs.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device.h"
#include "phase0_softmax/softmax.h"

namespace ladder {
namespace {

using namespace reference;

// Found by ./ladder fuzz --seed 1 --problem 2.
TEST(SafeSoftmaxFuzz, F32Q3K33D16RisingScoresQPaddedRowsQ00232NaNCalledTwice) {
    const PoisonOutputs poison_outputs;
    AttentionCase problem;
    problem.query_length = 3;
    problem.key_length = 33;
    problem.head_dim = 16;
    problem.family = Family::rising_scores;
    problem.layouts.q = Layout::padded_rows;
    const torch::Tensor x = make_scores(problem, test_device());
    x[2][32].fill_(NAN);
    const torch::Tensor y = safe_softmax(x);
    const Comparison verdict = compare_softmax(y, x);
    EXPECT_TRUE(verdict.passed) << verdict.report;
    const simt::ScopedCpuWorkers other_workers(2);
    EXPECT_TRUE(same_bits(y, safe_softmax(x)));
}

}  // namespace
}  // namespace ladder

#include <gtest/gtest.h>

#include <cmath>

#include "common/attention/outputs.h"
#include "common/reference/call_memory.h"
#include "common/reference/gradient_cases.h"
#include "common/reference/gradient_comparison.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device.h"
#include "phase8_backward/backward.h"

namespace ladder {
namespace {

using namespace reference;

// Found by ./ladder fuzz --seed 1 --problem 2.
TEST(PlainBackwardFuzz, F32B2Q5K65D16TopLeftCalledTwice) {
    const PoisonOutputs poison_outputs;
    AttentionCase problem;
    problem.batch = 2;
    problem.query_length = 5;
    problem.key_length = 65;
    problem.head_dim = 16;
    problem.options.mask = Mask::causal_top_left;
    const BackwardInputs x = make_backward_inputs(problem, test_device());
    const AttentionGradients result = plain_backward(x.dout, x.q, x.k, x.v, x.out, x.lse, x.options, {}, x.dlse);
    const Comparison verdict = compare_gradients(result, x.q, x.k, x.v, {x.out, x.lse}, x.dout, x.options, x.dlse);
    EXPECT_TRUE(verdict.passed) << verdict.report;
    const simt::ScopedCpuWorkers other_workers(2);
    const AttentionGradients again = plain_backward(x.dout, x.q, x.k, x.v, x.out, x.lse, x.options, {}, x.dlse);
    EXPECT_TRUE(same_bits(result.dq, again.dq));
    EXPECT_TRUE(same_bits(result.dk, again.dk));
    EXPECT_TRUE(same_bits(result.dv, again.dv));
}

}  // namespace
}  // namespace ladder

#include <gtest/gtest.h>

#include <cmath>

#include "common/attention/outputs.h"
#include "common/reference/call_memory.h"
#include "common/reference/gradient_cases.h"
#include "common/reference/gradient_comparison.h"
#include "common/reference/test_device.h"
#include "phase8_backward/backward.h"

namespace ladder {
namespace {

using namespace reference;

// Found by ./ladder fuzz --seed 1 --problem 2.
TEST(PlainBackwardFuzz, F32B2Q5K65D16TopLeftWithAndWithoutBatchNeighbours) {
    const PoisonOutputs poison_outputs;
    AttentionCase problem;
    problem.batch = 2;
    problem.query_length = 5;
    problem.key_length = 65;
    problem.head_dim = 16;
    problem.options.mask = Mask::causal_top_left;
    problem.seed = 1;
    const BackwardInputs x = make_backward_inputs(problem, test_device());
    const AttentionGradients result = plain_backward(x.dout, x.q, x.k, x.v, x.out, x.lse, x.options, {}, x.dlse);
    const Comparison verdict = compare_gradients(result, x.q, x.k, x.v, {x.out, x.lse}, x.dout, x.options, x.dlse);
    EXPECT_TRUE(verdict.passed) << verdict.report;
    BackwardInputs y = x;
    for (torch::Tensor* tensor : {&y.q, &y.k, &y.v, &y.out, &y.lse, &y.dout, &y.dlse})
        *tensor = tensor->narrow(0, 1, 1);
    const AttentionGradients again = plain_backward(y.dout, y.q, y.k, y.v, y.out, y.lse, y.options, {}, y.dlse);
    EXPECT_TRUE(same_bits(result.dq.narrow(0, 1, 1), again.dq));
    EXPECT_TRUE(same_bits(result.dk.narrow(0, 1, 1), again.dk));
    EXPECT_TRUE(same_bits(result.dv.narrow(0, 1, 1), again.dv));
}

}  // namespace
}  // namespace ladder

#include <gtest/gtest.h>

#include <cmath>

#include "common/attention/outputs.h"
#include "common/distributed/engine.h"
#include "common/reference/checks.h"
#include "common/reference/test_device.h"
#include "phase9_ring/on_threads.h"

namespace ladder {
namespace {

using namespace reference;

// Found by ./ladder fuzz --seed 1 --problem 2.
TEST(RingAttentionFuzz, F32Q5K7D8BottomRight3Ranks) {
    const PoisonOutputs poison_outputs;
    if (not_run_on_gpu("several ranks on threads need CPU tensors") ||
        not_run_for_want_of(distributed::missing_for(distributed::EngineKind::gloo)))
        return;
    AttentionCase problem;
    problem.query_length = 5;
    problem.key_length = 7;
    problem.head_dim = 8;
    problem.options.mask = Mask::causal_bottom_right;
    const AttentionEntry entry = [&](const auto& q, const auto& k, const auto& v, const auto& options) {
        return ring_attention_on_threads(q, k, v, options, 3);
    };
    EXPECT_TRUE(matches_reference(entry, problem, test_device()));
}

}  // namespace
}  // namespace ladder

#include <gtest/gtest.h>

#include <cmath>

#include "common/attention/outputs.h"
#include "common/distributed/engine.h"
#include "common/reference/call_memory.h"
#include "common/reference/checks.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device.h"
#include "phase9_ring/on_threads.h"

namespace ladder {
namespace {

using namespace reference;

// Found by ./ladder fuzz --seed 1 --problem 2.
TEST(RingAttentionFuzz, F32Q5K7D8BottomRight3RanksZigzagCalledTwice) {
    const PoisonOutputs poison_outputs;
    if (not_run_on_gpu("several ranks on threads need CPU tensors") ||
        not_run_for_want_of(distributed::missing_for(distributed::EngineKind::gloo)))
        return;
    AttentionCase problem;
    problem.query_length = 5;
    problem.key_length = 7;
    problem.head_dim = 8;
    problem.options.mask = Mask::causal_bottom_right;
    const AttentionEntry entry = [&](const auto& q, const auto& k, const auto& v, const auto& options) {
        return ring_attention_on_threads(q, k, v, options, 3, Parts::zigzag);
    };
    const auto inputs = make_inputs(problem, test_device());
    const auto& [q, k, v] = inputs;
    const AttentionResult result = entry(q, k, v, problem.options);
    const Comparison verdict = compare_attention(result, q, k, v, problem.options);
    EXPECT_TRUE(verdict.passed) << verdict.report;
    const simt::ScopedCpuWorkers other_workers(2);
    const AttentionResult again = entry(q, k, v, problem.options);
    EXPECT_TRUE(same_bits(result.out, again.out));
    EXPECT_TRUE(same_bits(result.lse, again.lse));
}

}  // namespace
}  // namespace ladder

#include <gtest/gtest.h>

#include <cmath>

#include "common/attention/outputs.h"
#include "common/reference/block_inputs.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device.h"
#include "phase7_hopper/fp8/compare_codes.h"
#include "phase7_hopper/fp8/hopper_fp8.h"

namespace ladder {
namespace {

using namespace reference;

// Found by ./ladder fuzz --seed 1 --problem 2.
TEST(HopperFp8ForwardFuzz, Bf16Q3K130D16) {
    const PoisonOutputs poison_outputs;
    const simt::ScopedCpuDevice device(simt::device_from(simt::device_profile("h100")));
    AttentionCase problem;
    problem.query_length = 3;
    problem.key_length = 130;
    problem.head_dim = 16;
    problem.dtype = torch::kBFloat16;
    const auto [q, k, v] = make_block_inputs(problem, {}, 128, test_device());
    const Fp8Options how{};
    const AttentionResult result = hopper_fp8_forward(q, k, v, problem.options, how);
    const Comparison verdict = fp8::compare_in_8_bits(result, q, k, v, problem.options, how);
    EXPECT_TRUE(verdict.passed) << verdict.report;
}

}  // namespace
}  // namespace ladder

// What is printed of problems in 8 bits takes longer lines.
// clang-format off

#include <gtest/gtest.h>

#include <cmath>

#include "common/attention/outputs.h"
#include "common/reference/block_inputs.h"
#include "common/reference/call_memory.h"
#include "common/reference/checks.h"
#include "common/reference/rotary_tables.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device.h"
#include "phase7_hopper/fp8/compare_codes.h"
#include "phase7_hopper/fp8/hopper_fp8.h"

namespace ladder {
namespace {

using namespace reference;

// Found by ./ladder fuzz --seed 1 --problem 2.
TEST(HopperFp8ForwardFuzz, Bf16B2Q3K130D16NotRotatedValuesInE5m2RotaryFrom127KeysGrowBy2Minus1ValuesGrowBy29OutliersV1012915NaNWithAndWithoutBatchNeighbours) {
    const PoisonOutputs poison_outputs;
    const simt::ScopedCpuDevice device(simt::device_from(simt::device_profile("h100")));
    AttentionCase problem;
    problem.batch = 2;
    problem.query_length = 3;
    problem.key_length = 130;
    problem.head_dim = 16;
    problem.dtype = torch::kBFloat16;
    const auto [q, k, v] = make_block_inputs(problem, {.key_growth = -1, .value_growth = 9, .outliers = true}, 128, test_device());
    v[1][0][129][15].fill_(NAN);
    const auto [cosines, sines] = rotary_tables(130, 16, test_device());
    const Fp8Options how{.rotated = false, .values = ValueCodes::e5m2, .rotary = Rotary{cosines, sines, 127}};
    const AttentionResult result = hopper_fp8_forward(q, k, v, problem.options, how);
    const Comparison verdict = fp8::compare_in_8_bits(result, q, k, v, problem.options, how);
    EXPECT_TRUE(verdict.passed) << verdict.report;
    const AttentionEntry entry = [&](const auto& q, const auto& k, const auto& v, const auto& options) {
        return hopper_fp8_forward(q, k, v, options, how);
    };
    const auto alone = [](const torch::Tensor& batch) { return batch.narrow(0, 1, 1); };
    const AttentionResult again = entry(alone(q), alone(k), alone(v), problem.options);
    EXPECT_TRUE(same_bits(alone(result.out), again.out));
    EXPECT_TRUE(same_bits(alone(result.lse), again.lse));
}

}  // namespace
}  // namespace ladder

#include <gtest/gtest.h>

#include <cmath>

#include "common/attention/outputs.h"
#include "common/reference/block_inputs.h"
#include "common/reference/call_memory.h"
#include "common/reference/checks.h"
#include "common/reference/rotary_tables.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device.h"
#include "phase7_hopper/fp8/compare_codes.h"
#include "phase7_hopper/fp8/hopper_fp8.h"

namespace ladder {
namespace {

using namespace reference;

// Found by ./ladder fuzz --seed 1 --problem 2.
TEST(HopperFp8ForwardFuzz, Bf16B2Q3K130D16NotRotatedValuesInE5m2RotaryFrom127KeysGrowBy2Minus1ValuesGrowBy29OutliersV1012915NaNCalledTwiceOnH200) {
    const PoisonOutputs poison_outputs;
    const simt::ScopedCpuDevice device(simt::device_from(simt::device_profile("h200")));
    AttentionCase problem;
    problem.batch = 2;
    problem.query_length = 3;
    problem.key_length = 130;
    problem.head_dim = 16;
    problem.dtype = torch::kBFloat16;
    const auto [q, k, v] = make_block_inputs(problem, {.key_growth = -1, .value_growth = 9, .outliers = true}, 128, test_device());
    v[1][0][129][15].fill_(NAN);
    const auto [cosines, sines] = rotary_tables(130, 16, test_device());
    const Fp8Options how{.rotated = false, .values = ValueCodes::e5m2, .rotary = Rotary{cosines, sines, 127}};
    const AttentionResult result = hopper_fp8_forward(q, k, v, problem.options, how);
    const Comparison verdict = fp8::compare_in_8_bits(result, q, k, v, problem.options, how);
    EXPECT_TRUE(verdict.passed) << verdict.report;
    const AttentionEntry entry = [&](const auto& q, const auto& k, const auto& v, const auto& options) {
        return hopper_fp8_forward(q, k, v, options, how);
    };
    const simt::ScopedCpuWorkers other_workers(2);
    const AttentionResult again = entry(q, k, v, problem.options);
    EXPECT_TRUE(same_bits(result.out, again.out));
    EXPECT_TRUE(same_bits(result.lse, again.lse));
}

}  // namespace
}  // namespace ladder

#include <gtest/gtest.h>

#include <cmath>

#include "common/attention/outputs.h"
#include "common/reference/entry_checks.h"
#include "phase3_fa2/fa2.h"

namespace ladder {
namespace {

using namespace reference;

// Found by ./ladder fuzz --seed 1 --problem 2.
TEST(Fa2ForwardFuzz, RefusesScaleNan) {
    const PoisonOutputs poison_outputs;
    EXPECT_TRUE(refuses_bad_input(fa2_forward));  // scale_nan
}

}  // namespace
}  // namespace ladder

#include <gtest/gtest.h>

#include <cmath>

#include "common/attention/outputs.h"
#include "common/reference/entry_checks.h"
#include "phase8_backward/backward.h"

namespace ladder {
namespace {

using namespace reference;

// Found by ./ladder fuzz --seed 1 --problem 2.
TEST(PlainBackwardFuzz, RefusesScaleNan) {
    const PoisonOutputs poison_outputs;
    const auto entry = [](const auto& q, const auto& k, const auto& v, const AttentionOptions& options) {
        plain_backward(q, q, k, v, q, q, options, {});
        return AttentionResult();
    };
    const EntryTraits traits{.masks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left}};
    EXPECT_TRUE(refuses_bad_input(entry, traits));  // scale_nan
}

}  // namespace
}  // namespace ladder

#include <gtest/gtest.h>

#include <cmath>

#include "common/attention/outputs.h"
#include "common/reference/entry_checks.h"
#include "phase9_ring/on_threads.h"

namespace ladder {
namespace {

using namespace reference;

// Found by ./ladder fuzz --seed 1 --problem 2.
TEST(RingAttentionFuzz, RefusesScaleNan) {
    const PoisonOutputs poison_outputs;
    const auto entry = [](const auto& q, const auto& k, const auto& v, const AttentionOptions& options) {
        return ring_attention_on_threads(q, k, v, options);
    };
    const EntryTraits traits{.masks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left}, .dtypes = {torch::kFloat32, torch::kFloat16, torch::kBFloat16}};
    EXPECT_TRUE(refuses_bad_input(entry, traits));  // scale_nan
}

}  // namespace
}  // namespace ladder

#include <gtest/gtest.h>

#include <cmath>

#include "common/attention/outputs.h"
#include "common/reference/entry_checks.h"
#include "common/simt/device/device.h"
#include "phase7_hopper/fp8/hopper_fp8.h"

namespace ladder {
namespace {

using namespace reference;

// Found by ./ladder fuzz --seed 1 --problem 2.
TEST(HopperFp8ForwardFuzz, RefusesRotaryOfOddColumns) {
    const PoisonOutputs poison_outputs;
    const simt::ScopedCpuDevice device(simt::device_from(simt::device_profile("h100")));
    const auto entry = [](const auto& q, const auto& k, const auto& v, const AttentionOptions& options) {
        return hopper_fp8_forward(q, k, v, options);
    };
    const EntryTraits traits{.masks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left}, .dtypes = {torch::kFloat16, torch::kBFloat16}};
    EXPECT_TRUE(refuses_bad_input(entry, traits));  // rotary_of_odd_columns
}

}  // namespace
}  // namespace ladder
