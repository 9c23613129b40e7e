// What the host entries refuse before anything is launched, and in which words; and that nothing valid is refused.

#include "common/attention/check.h"

#include <gtest/gtest.h>

#include <limits>

#include "common/attention/dispatch.cuh"
#include "common/attention/machine.h"
#include "common/reference/bad_inputs.h"
#include "common/reference/checks.h"

namespace ladder {
namespace {

using reference::throws_mentioning;

torch::Tensor zeros(at::IntArrayRef sizes, torch::ScalarType dtype = torch::kFloat32) {
    return at::zeros(sizes, at::TensorOptions().dtype(dtype));
}

struct Problem {
    torch::Tensor q = zeros({2, 4, 5, 32});
    torch::Tensor k = zeros({2, 2, 7, 32});
    torch::Tensor v = zeros({2, 2, 7, 32});
    AttentionOptions options = {};
};

void check(const Problem& p, std::initializer_list<Mask> masks = {Mask::none}) {
    check_attention(p.q, p.k, p.v, p.options, masks);
}

/// Passes iff the check refuses the problem, as an invalid_argument whose text has all the words.
::testing::AssertionResult refused(const Problem& p, const std::vector<std::string>& words) {
    try {
        check(p);
    } catch (const std::invalid_argument&) {
        return throws_mentioning([&] { check(p); }, words);
    }
    return ::testing::AssertionFailure() << "accepted";
}

TEST(CheckAttention, EveryBadInputOfTheHarness) {
    for (const reference::BadInput& bad : reference::bad_inputs(torch::kCPU))
        EXPECT_TRUE(refused({bad.q, bad.k, bad.v, bad.options}, bad.mentions)) << bad.name;
}

// The words that a reader needs: which argument, what it is, what is accepted, what to do.
TEST(CheckAttention, MessagesSayWhatIsWrongAndWhatIsAccepted) {
    Problem p;
    p.q = torch::Tensor();
    EXPECT_TRUE(refused(p, {"q: the tensor is undefined", "rank 4"}));
    p = {};
    p.q = zeros({2, 4, 5, 32}, torch::kFloat64);
    EXPECT_TRUE(refused(p, {"q: the dtype is", "Double", "float32, float16 and bfloat16", ".to("}));
    p = {};
    p.k = p.k.to_sparse();
    EXPECT_TRUE(refused(p, {"k: the layout is", "Sparse", ".to_dense()"}));
    p = {};
    p.v = zeros({2, 7, 32});
    EXPECT_TRUE(refused(p, {"v: the shape is [2, 7, 32] of rank 3", "rank 4"}));
    p = {};
    p.k = zeros({2, 2, 0, 32});
    EXPECT_TRUE(refused(p, {"k: the shape is [2, 2, 0, 32]", "dimension 2 is 0", "at least 1"}));
    p = {};
    p.v = zeros({2, 2, 32, 7}).transpose(2, 3);
    EXPECT_TRUE(refused(p, {"v: the last dimension has stride 7", "stride 1", ".contiguous()"}));
    p = {};
    p.k = zeros({2, 2, 7, 32}, torch::kFloat16);
    EXPECT_TRUE(refused(p, {"k: the dtype is Half", "q's is Float"}));
    p = {};
    p.k = zeros({3, 2, 7, 32});
    EXPECT_TRUE(refused(p, {"k: the batch size is 3, but q's is 2"}));
    p = {};
    p.v = zeros({2, 2, 7, 16});
    EXPECT_TRUE(refused(p, {"v: the head dimension is 16, but q's is 32"}));
    p = {};
    p.v = zeros({2, 1, 7, 32});
    EXPECT_TRUE(refused(p, {"v: the number of heads is 1, but k's is 2"}));
    p = {};
    p.v = zeros({2, 2, 8, 32});
    EXPECT_TRUE(refused(p, {"v: the length is 8, but k's is 7"}));
    p = {};
    p.q = zeros({2, 3, 5, 32});
    EXPECT_TRUE(refused(p, {"q: it has 3 heads and k has 2", "multiple"}));
    p = {zeros({1, 1, 2, 257}), zeros({1, 1, 2, 257}), zeros({1, 1, 2, 257})};
    EXPECT_TRUE(refused(p, {"q: the head dimension is 257", "1 to 256"}));
    p = {};
    p.options.scale = std::numeric_limits<double>::quiet_NaN();
    EXPECT_TRUE(refused(p, {"scale: it is nan", "finite"}));
    p = {};
    p.options.mask = Mask::causal_top_left;
    EXPECT_TRUE(refused(p, {"mask: it is causal_top_left", "accepts none", "phase 4"}));
}

TEST(CheckAttention, SizesAtTheirLimits) {
    const auto grown = [](const torch::Tensor& tensor, int64_t dimension, int64_t size) {
        auto sizes = tensor.sizes().vec();
        sizes[std::size_t(dimension)] = size;
        return tensor.narrow(dimension, 0, 1).expand(sizes);
    };
    const auto sized = [&](int64_t dimension, int64_t size) {
        Problem p;
        p.q = grown(p.q, dimension, size);
        p.k = grown(p.k, dimension, size);
        p.v = grown(p.v, dimension, size);
        return p;
    };
    EXPECT_NO_THROW(check(sized(0, kMaxBatchOrHeads)));
    EXPECT_TRUE(refused(sized(0, kMaxBatchOrHeads + 1), {"q: the shape is [65536, 4, 5, 32]", "at most 65535"}));
    EXPECT_NO_THROW(check(sized(1, kMaxBatchOrHeads)));
    EXPECT_TRUE(refused(sized(1, kMaxBatchOrHeads + 1), {"q:", "at most 65535"}));
    EXPECT_NO_THROW(check(sized(2, kMaxLength)));
    EXPECT_TRUE(refused(sized(2, kMaxLength + 1), {"q: the length is " + std::to_string(kMaxLength + 1)}));
    Problem long_keys;
    long_keys.k = grown(long_keys.k, 2, kMaxLength + 1);
    long_keys.v = grown(long_keys.v, 2, kMaxLength + 1);
    EXPECT_TRUE(refused(long_keys, {"k: the length is " + std::to_string(kMaxLength + 1)}));
    for (const int64_t head_dim : {int64_t{1}, kMaxHeadDim})
        EXPECT_NO_THROW(check({zeros({1, 1, 2, head_dim}), zeros({1, 1, 2, head_dim}), zeros({1, 1, 2, head_dim})}));
}

TEST(CheckAttention, EveryDtypeAndMask) {
    for (const auto dtype : {torch::kFloat32, torch::kFloat16, torch::kBFloat16})
        EXPECT_NO_THROW(check({zeros({1, 1, 2, 4}, dtype), zeros({1, 1, 3, 4}, dtype), zeros({1, 1, 3, 4}, dtype)}));
    Problem p;
    for (const Mask mask : {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left}) {
        p.options.mask = mask;
        EXPECT_NO_THROW(check(p, {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left}));
    }
    EXPECT_TRUE(throws_mentioning(
        [&] {
            check(p, {Mask::none, Mask::causal_bottom_right});
        },
        {"mask: it is causal_top_left", "none, causal_bottom_right"}));
    for (const double scale : {0.0, -1.0, 1e300, 5e-324}) {
        p = {};
        p.options.scale = scale;
        EXPECT_NO_THROW(check(p)) << scale;
    }
}

TEST(CheckAttention, ExoticStridesThatAreFine) {
    Problem p;
    p.k = zeros({2, 1, 7, 32}).expand({2, 2, 7, 32});  // heads at stride 0
    p.v = zeros({1, 1, 1, 32}).expand({2, 2, 7, 32});  // everything but the last dimension
    EXPECT_NO_THROW(check(p));
    p = {};
    p.q = zeros({2, 5, 4, 32}).transpose(1, 2);   // [B, S, H, D] in memory
    p.k = zeros({2, 2, 7, 40}).narrow(3, 3, 32);  // rows with gaps, at an odd offset
    p.v = zeros({4, 4, 20, 32}).slice(0, 0, 4, 2).slice(1, 1, 4, 2).slice(2, 2, 16, 2);
    ASSERT_EQ(p.v.sizes(), p.k.sizes());
    EXPECT_NO_THROW(check(p));
    // Overlapping rows are read only.
    p = {};
    p.k = zeros({1000}).as_strided({2, 2, 7, 32}, {9, 5, 1, 1});
    EXPECT_NO_THROW(check(p));
    // A dimension of size 1 may carry any stride, the last one too.
    p = {};
    p.q = zeros({1000}).as_strided({2, 4, 1, 32}, {128, 32, 77, 1});
    EXPECT_NO_THROW(check(p));
    for (const int64_t last : {0, 1, 2, 55}) {
        const auto thin = [&](int64_t length) { return zeros({1000}).as_strided({1, 1, length, 1}, {3, 5, 7, last}); };
        EXPECT_NO_THROW(check({thin(9), thin(11), thin(11)})) << last;
        EXPECT_EQ(tensor_argument("Q", thin(9)).strides[3], 1) << "kernels rely on it";
        EXPECT_EQ(tensor_argument("Q", thin(9)).strides[2], 7);
    }
}

TEST(CheckTensor, NamesTheTensorAndItsRank) {
    EXPECT_NO_THROW(check_tensor("x", zeros({3, 4}), 2));
    EXPECT_NO_THROW(check_tensor("x", zeros({4}), 1));
    EXPECT_TRUE(throws_mentioning(
        [] {
            check_tensor("x", zeros({3, 4}), 3);
        },
        {"x: the shape is [3, 4] of rank 2", "rank 3"}));
    EXPECT_TRUE(throws_mentioning([] { check_tensor("out_parts", torch::Tensor(), 5); }, {"out_parts:", "rank 5"}));
    EXPECT_TRUE(throws_mentioning([] { check_tensor("x", zeros({3, 4}, torch::kInt32), 2); }, {"x: the dtype is Int"}));
    EXPECT_TRUE(throws_mentioning([] { check_tensor("x", zeros({3, 0}), 2); }, {"x:", "dimension 1 is 0"}));
    EXPECT_TRUE(throws_mentioning([] { check_tensor("x", zeros({3, 4}).t(), 2); }, {"x:", "stride 4"}));
    EXPECT_TRUE(throws_mentioning(
        [] {
            check_tensor("x", zeros({3, 4}).to(torch::kMeta), 2);
        },
        {"x: the device is meta", "cpu and cuda"}));
}

TEST(CheckSharedMemory, ExactlyAtTheLimit) {
    for (const simt::DeviceProfile& profile : simt::device_profiles()) {
        const simt::ScopedCpuDevice imitated(simt::device_from(profile));
        const std::size_t limit = std::size_t(profile.shared_bytes_per_block_optin);
        EXPECT_NO_THROW(check_shared_memory("kernel", 0, torch::kCPU, ""));
        EXPECT_NO_THROW(check_shared_memory("kernel", limit - 1, torch::kCPU, ""));
        EXPECT_NO_THROW(check_shared_memory("kernel", limit, torch::kCPU, ""));
        EXPECT_TRUE(throws_mentioning(
            [&] { check_shared_memory("scheme_a", limit + 1, torch::kCPU, "use a shorter sequence"); },
            {"scheme_a: required " + std::to_string(limit + 1), "limit " + std::to_string(limit),
             std::string(profile.product), "use a shorter sequence"}))
            << profile.name;
    }
}

TEST(ShapeOf, LooksLikePython) {
    EXPECT_EQ(shape_of(zeros({2, 8, 128, 64})), "[2, 8, 128, 64]");
    EXPECT_EQ(shape_of(zeros({7})), "[7]");
}

TEST(TensorArgument, CarriesShapeStridesAndType) {
    const torch::Tensor tensor = zeros({2, 5, 3, 8}, torch::kBFloat16).transpose(1, 2);
    const simt::TensorArgument argument = tensor_argument("V", tensor);
    EXPECT_STREQ(argument.name, "V");
    EXPECT_EQ(argument.data, tensor.data_ptr());
    EXPECT_EQ(argument.type, simt::ElementType::bf16);
    EXPECT_EQ(argument.rank, 4);
    EXPECT_EQ(argument.extents, (std::array<std::int64_t, 4>{2, 3, 5, 8}));
    EXPECT_EQ(argument.strides, (std::array<std::int64_t, 4>{120, 8, 24, 1}));
    EXPECT_EQ(tensor_argument("V", zeros({1}, torch::kFloat16)).type, simt::ElementType::f16);
    EXPECT_ANY_THROW(tensor_argument("V", zeros({1}, torch::kFloat64)));
}

TEST(ElementTypes, OnesThatNoKernelTakesAreRefused) {
    using enum simt::ElementType;
    for (const simt::ElementType type : {i32, e4m3, e5m2})
        EXPECT_TRUE(throws_mentioning([&] { cpu::with_element_type(type, [](auto) {}); },
                                      {std::string(name_of(type)), "bfloat16 are accepted"}));
    int bytes = 0;
    cpu::with_element_type(bf16, [&]<class T>(std::type_identity<T>) { bytes = sizeof(T); });
    EXPECT_EQ(bytes, 2);
}

TEST(AttentionArguments, ScaleDefaultsToOneOverTheRootOfD) {
    Problem p;
    const auto scale = [&] { return attention_arguments(p.q, p.k, p.v, p.q, {}, p.options).scale; };
    EXPECT_FLOAT_EQ(scale(), 0.17677669f);
    p.options.scale = 0.25;
    EXPECT_EQ(scale(), 0.25f);
    EXPECT_EQ(attention_arguments(p.q, p.k, p.v, p.q, {}, p.options).lse.rank, 0) << "an entry without LSE";
}

}  // namespace
}  // namespace ladder
