// The operator itself, on its own. It is tested on the host, where a kernel's functions are ordinary ones; the other
// tests of this phase run it inside kernels.
#include "phase0_softmax/softmax_state.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace ladder::SIMT_MACHINE {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Equal up to the rounding of a few float operations; NaN equals NaN.
::testing::AssertionResult close(float a, float b) {
    if (a == b || (std::isnan(a) && std::isnan(b))) return ::testing::AssertionSuccess();
    if (std::abs(a - b) <= 1e-6f * std::max(std::abs(a), std::abs(b))) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << a << " and " << b;
}

::testing::AssertionResult close(SoftmaxState a, SoftmaxState b) {
    if (a.m == b.m && close(a.l, b.l)) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "(" << a.m << ", " << a.l << ") and (" << b.m << ", " << b.l << ")";
}

/// States as rows produce them: nothing, single scores, sums; close together, far apart, beyond all float exponents.
std::vector<SoftmaxState> states() {
    return {{},
            {0.0f, 1.0f},
            {0.5f, 3.25f},
            {-1000.0f, 1.0f},
            {-1001.5f, 17.0f},
            {500.0f, 2.0f},
            {88.0f, 100000.0f},
            {3e38f, 1.0f},
            {-3e38f, 5.0f},
            {-kInfinity, 1.0f},  // a single score of -inf
            {kInfinity, kInfinity}};
}

TEST(SoftmaxState, EmptyIsTheIdentity) {
    for (const SoftmaxState s :
         {SoftmaxState{0.5f, 3.25f}, {-1000.0f, 1.0f}, {3e38f, 7.0f}, {kInfinity, kInfinity}, {}}) {
        for (const SoftmaxState same : {merge(s, {}), merge({}, s)}) {
            EXPECT_EQ(same.m, s.m);
            EXPECT_EQ(same.l, s.l) << "to the last bit";
        }
    }
}

TEST(SoftmaxState, MergeIsCommutative) {
    for (const SoftmaxState a : states())
        for (const SoftmaxState b : states()) EXPECT_TRUE(close(merge(a, b), merge(b, a)));
}

TEST(SoftmaxState, MergeIsAssociative) {
    for (const SoftmaxState a : states())
        for (const SoftmaxState b : states())
            for (const SoftmaxState c : states()) EXPECT_TRUE(close(merge(merge(a, b), c), merge(a, merge(b, c))));
}

SoftmaxState one_after_another(const std::vector<float>& scores) {
    SoftmaxState state;
    for (const float x : scores) state = merge(state, {x, 1.0f});
    return state;
}

/// Cuts anywhere, merges the halves.
SoftmaxState in_a_random_tree(const std::vector<float>& scores, std::mt19937& random) {
    if (scores.empty()) return {};
    if (scores.size() == 1) return {scores[0], 1.0f};
    const auto cut = scores.begin() + std::ptrdiff_t(random() % (scores.size() + 1));
    if (cut == scores.begin() || cut == scores.end()) return in_a_random_tree(scores, random);
    const SoftmaxState left = in_a_random_tree({scores.begin(), cut}, random);
    return merge(left, in_a_random_tree({cut, scores.end()}, random));
}

TEST(SoftmaxState, AnyTreeInAnyOrderGivesMaximumAndSum) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0.0f, 10.0f);
    for (const int length : {1, 2, 3, 17, 100, 500}) {
        std::vector<float> scores(length);
        for (float& x : scores) x = normal(random);
        const float m = *std::ranges::max_element(scores);
        double l = 0;
        for (const float x : scores) l += std::exp(double(x) - m);

        EXPECT_TRUE(close(one_after_another(scores), {m, float(l)})) << length;
        for (int shuffles = 0; shuffles < 20; ++shuffles) {
            std::ranges::shuffle(scores, random);
            EXPECT_TRUE(close(in_a_random_tree(scores, random), {m, float(l)})) << length;
        }
    }
}

TEST(SoftmaxState, OnlyMinusInfinityIsLikeNothing) {
    const SoftmaxState state = one_after_another({-kInfinity, -kInfinity});
    EXPECT_EQ(state.m, -kInfinity);
    EXPECT_EQ(state.l, 0.0f);
    EXPECT_TRUE(std::isnan(SoftmaxWeight(state)(-kInfinity)));
}

TEST(SoftmaxState, InfinityAndNaNAreNotForgotten) {
    std::vector<float> scores{1.0f, kInfinity, 200.0f, -kInfinity, -3.0f};
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::ranges::sort(scores);
    do {
        const SoftmaxState state = one_after_another(scores);
        EXPECT_EQ(state.m, kInfinity);
        EXPECT_EQ(state.l, kInfinity);
        for (const float x : scores) EXPECT_TRUE(std::isnan(SoftmaxWeight(state)(x)));
        for (std::size_t i = 0; i < scores.size(); ++i) {
            std::vector<float> poisoned = scores;
            poisoned[i] = nan;
            EXPECT_TRUE(std::isnan(SoftmaxWeight(one_after_another(poisoned))(1.0f)));
        }
    } while (std::ranges::next_permutation(scores).found);
    EXPECT_TRUE(std::isnan(one_after_another({nan}).l));
}

TEST(SoftmaxWeight, IsExpOverSum) {
    const SoftmaxWeight weight(one_after_another({1.0f, 2.0f, 3.0f}));
    const double sum = std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
    for (const float x : {1.0f, 2.0f, 3.0f}) EXPECT_TRUE(close(weight(x), float(std::exp(x) / sum)));
    EXPECT_EQ(weight(-kInfinity), 0.0f);
}

}  // namespace
}  // namespace ladder::SIMT_MACHINE
