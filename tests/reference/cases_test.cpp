// The lists of cases visit what they say that they visit.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/reference/cases.h"
#include "common/reference/inputs.h"
#include "common/reference/pairwise.h"

namespace ladder::reference {
namespace {

constexpr std::array kDtypes{torch::kFloat32, torch::kFloat16, torch::kBFloat16};

TEST(Cases, have_unique_names_fit_for_gtest_and_small_total_work) {
    const auto fit_for_gtest = [](const std::string& name) {
        return !name.empty() &&
               std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
    };
    for (const auto& cases : {standard_cases(), causal_cases()}) {
        std::set<std::string> names;
        int64_t total = 0;
        for (const auto& problem : cases) {
            EXPECT_TRUE(fit_for_gtest(problem.name)) << problem.name;
            EXPECT_TRUE(names.insert(problem.name).second) << problem.name;
            EXPECT_LE(work(problem), 1'200'000) << problem.name;
            total += work(problem);
        }
        EXPECT_LE(total, kMaxTotalWork);
    }
}

TEST(Cases, cover_what_the_design_asks_for) {
    std::set<std::pair<torch::ScalarType, Family>> families;
    bool scaled = false;
    for (const auto& problem : standard_cases()) {
        families.emplace(problem.dtype, problem.family);
        scaled |= problem.options.scale.has_value();
        EXPECT_EQ(problem.options.mask, Mask::none) << problem.name;
    }
    EXPECT_EQ(families.size(), 3 * 9u);
    EXPECT_TRUE(scaled);
}

/// Calls `holds` with every case of a list; how many it holds for.
template <class Holds>
int count(const std::vector<AttentionCase>& cases, const Holds& holds) {
    return int(std::count_if(cases.begin(), cases.end(), holds));
}

// Written down here once more, and not taken from cases.cpp: what becomes unreachable there must be missed.
TEST(Cases, hold_every_pair_of_values_beside_the_constants_of_kernels) {
    using Values = std::vector<std::function<bool(const AttentionCase&)>>;
    const auto among = [](std::vector<int64_t> values, int64_t AttentionCase::*size) {
        Values holds;
        for (const int64_t value : values)
            holds.push_back([=](const AttentionCase& problem) { return problem.*size == value; });
        return holds;
    };
    Values heads, more_heads, dtypes, layouts;
    for (const auto& [query, kv] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 3}, {4, 2}, {8, 1}, {9, 3}})
        (query > 4 ? more_heads : heads).push_back([query = query, kv = kv](const AttentionCase& problem) {
            return problem.query_heads == query && problem.kv_heads == kv;
        });
    for (const auto dtype : kDtypes)
        dtypes.push_back([=](const AttentionCase& problem) { return problem.dtype == dtype; });
    for (const auto tensor : {&Layouts::q, &Layouts::k, &Layouts::v})
        for (const auto layout : {Layout::contiguous, Layout::bshd, Layout::packed_qkv, Layout::sliced_offset,
                                  Layout::expanded_heads, Layout::expanded_batch})
            layouts.push_back([=](const AttentionCase& problem) { return problem.layouts.*tensor == layout; });
    const Values batches = among({1, 2, 5}, &AttentionCase::batch),
                 queries = among({1, 2, 17, 33, 64, 65}, &AttentionCase::query_length),
                 keys = among({1, 2, 33, 64, 65}, &AttentionCase::key_length),
                 head_dims = among({1, 32, 48, 64}, &AttentionCase::head_dim),
                 all_head_dims = among({1, 3, 8, 20, 32, 33, 48, 64, 80, 96, 112, 128, 136, 160, 192, 200, 256},
                                       &AttentionCase::head_dim),
                 masked_head_dims = among({1, 8, 32, 48, 64, 80, 128, 192, 256}, &AttentionCase::head_dim),
                 more_keys = among({129, 257, 513}, &AttentionCase::key_length),
                 more_queries = among({129}, &AttentionCase::query_length);
    Values masks;
    for (const auto mask : {Mask::causal_bottom_right, Mask::causal_top_left})
        masks.push_back([=](const AttentionCase& problem) { return problem.options.mask == mask; });

    const auto expect_pairs = [](const std::vector<AttentionCase>& cases, const Values& some, const Values& others,
                                 const std::string& of) {
        for (std::size_t i = 0; i < some.size(); ++i)
            for (std::size_t j = 0; j < others.size(); ++j)
                EXPECT_TRUE(count(cases, [&](const auto& problem) { return some[i](problem) && others[j](problem); }))
                    << of << ": value " << i << " of the first with value " << j << " of the second";
    };
    const auto expect_all = [&](const std::vector<AttentionCase>& cases, const Values& of_head_dim) {
        const std::vector<std::pair<std::string, Values>> factors{
            {"B", batches},   {"H", heads},      {"Sq", queries},     {"Sk", keys},
            {"D", head_dims}, {"dtype", dtypes}, {"layouts", layouts}};
        for (std::size_t i = 0; i < factors.size(); ++i)
            for (std::size_t j = i + 1; j < factors.size(); ++j)
                expect_pairs(cases, factors[i].second, factors[j].second, factors[i].first + ", " + factors[j].first);
        // The big ones, one at a time.
        for (const Values& big : {of_head_dim, more_heads, more_keys, more_queries}) {
            expect_pairs(cases, big, dtypes, "big, dtype");
            expect_pairs(cases, big, layouts, "big, layouts");
        }
        for (const Values& sizes : {queries, keys, head_dims}) expect_pairs(cases, more_heads, sizes, "heads, sizes");
    };
    expect_all(standard_cases(), all_head_dims);
    const auto causal = causal_cases();
    expect_all(causal, masked_head_dims);
    for (const Values& values :
         {batches, heads, more_heads, queries, more_queries, keys, more_keys, masked_head_dims, dtypes, layouts})
        expect_pairs(causal, masks, values, "mask");
}

TEST(Cases, leave_every_remainder_of_keys_in_float32) {
    for (const int64_t tile : {8, 16, 32, 64, 128})
        for (int64_t remainder = 0; remainder < tile; ++remainder) {
            const auto leaves = [&](Mask mask) {
                return [=](const AttentionCase& problem) {
                    return problem.dtype == torch::kFloat32 && problem.options.mask == mask &&
                           problem.key_length > std::min<int64_t>(tile, 64) && problem.key_length % tile == remainder;
                };
            };
            EXPECT_TRUE(count(standard_cases(), leaves(Mask::none))) << remainder << " modulo " << tile;
            EXPECT_TRUE(count(causal_cases(), leaves(Mask::causal_bottom_right))) << remainder << " modulo " << tile;
        }
}

/// Whether reading V with K's strides reads other elements.
bool differ_in_strides(const torch::Tensor& k, const torch::Tensor& v) {
    for (int64_t d = 0; d < 3; ++d)
        if (k.size(d) > 1 && k.stride(d) != v.stride(d)) return true;
    return false;
}

TEST(Cases, give_every_tensor_a_layout_of_its_own) {
    for (const auto& cases : {standard_cases(), causal_cases()}) {
        std::map<torch::ScalarType, int> differ, compared;
        for (const auto& problem : cases) {
            const auto& [layout_q, layout_k, layout_v] = problem.layouts;
            EXPECT_TRUE(layout_q != layout_k && layout_k != layout_v && layout_v != layout_q) << problem.name;
            const auto [q, k, v] = make_inputs(problem, torch::kCPU);
            ++compared[problem.dtype];
            differ[problem.dtype] += differ_in_strides(k, v);
        }
        for (const auto dtype : kDtypes) EXPECT_GT(3 * differ[dtype], compared[dtype]) << c10::toString(dtype);
    }
}

TEST(Cases, causal_ones_cover_each_mask_on_each_side_of_square) {
    std::set<std::tuple<Mask, int>> seen;
    bool rows_without_keys = false;
    for (const auto& problem : causal_cases()) {
        const auto difference = problem.query_length - problem.key_length;
        seen.emplace(problem.options.mask, (difference > 0) - (difference < 0));
        rows_without_keys |= problem.options.mask == Mask::causal_bottom_right && difference > 0;
    }
    EXPECT_EQ(seen.size(), 6u);
    EXPECT_TRUE(rows_without_keys);
}

// ---- pairwise ------------------------------------------------------------------------------------------------------

/// Every pair of values of two factors that `possible` allows stands in some choice, and no choice is impossible.
void expect_every_pair(const std::vector<std::size_t>& values, const std::function<bool(const Choice&)>& possible) {
    const auto choices = pairwise(values, possible);
    for (const auto& choice : choices) {
        ASSERT_EQ(choice.size(), values.size());
        EXPECT_TRUE(possible(choice));
    }
    for (std::size_t i = 0; i < values.size(); ++i)
        for (std::size_t j = i + 1; j < values.size(); ++j)
            for (std::size_t a = 0; a < values[i]; ++a)
                for (std::size_t b = 0; b < values[j]; ++b) {
                    Choice alone(values.size(), 0);
                    alone[i] = a;
                    alone[j] = b;
                    const bool held = std::any_of(choices.begin(), choices.end(), [&](const Choice& choice) {
                        return choice[i] == a && choice[j] == b;
                    });
                    EXPECT_TRUE(held || !possible(alone)) << i << " is " << a << ", " << j << " is " << b;
                }
}

TEST(Pairwise, holds_every_pair) {
    const auto any = [](const Choice&) { return true; };
    expect_every_pair({2, 2}, any);
    expect_every_pair({3, 1, 4}, any);
    expect_every_pair({2, 3, 5, 7, 4, 3}, any);
    expect_every_pair({2, 3, 5, 7, 4, 3}, [](const Choice& c) { return c[2] + c[3] + c[4] < 8; });
}

TEST(Pairwise, needs_far_fewer_choices_than_the_product) {
    const auto any = [](const Choice&) { return true; };
    EXPECT_LE(pairwise({3, 3, 3, 3}, any).size(), 15u);        // of 81; 9 is the least
    EXPECT_LE(pairwise({2, 3, 5, 7, 4, 3}, any).size(), 45u);  // of 2520; 35
    EXPECT_EQ(pairwise({4, 6}, any).size(), 24u);
}

TEST(Pairwise, leaves_out_what_is_impossible) {
    const auto choices = pairwise({3, 3}, [](const Choice& c) { return c[0] + c[1] < 3; });
    EXPECT_EQ(choices.size(), 6u);
}

TEST(Cases, describe_themselves) {
    const AttentionCase problem{.query_heads = 4,
                                .kv_heads = 2,
                                .query_length = 33,
                                .key_length = 65,
                                .head_dim = 64,
                                .dtype = torch::kFloat16,
                                .family = Family::tiny,
                                .layouts = {.q = Layout::bshd, .v = Layout::packed_qkv},
                                .options = {.scale = -0.5, .mask = Mask::causal_top_left}};
    EXPECT_EQ(describe(problem), "f16_h4_kv2_q33_k65_d64_tiny_q_bshd_v_packed_qkv_top_left_scalem0p5");
}

}  // namespace
}  // namespace ladder::reference
