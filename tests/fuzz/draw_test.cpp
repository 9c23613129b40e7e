// Problem I of seed S is the same everywhere, and the problems cover what the entries take.

#include "common/fuzz/draw.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "common/simt/device/device_profile.h"
#include "tests/fuzz/planted.h"

namespace ladder::fuzz {
namespace {

std::vector<Entry> one_of_each_form() {
    std::vector<Entry> entries;
    for (const Form form : {Form::softmax, Form::attention, Form::blocked, Form::decode})
        entries.push_back(honest_entry(form));
    entries[1].masks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};
    entries[2].rounds_scores = entries[2].adds_keys_in_turn = true;
    return entries;
}

std::string line_of(const Draw& draw) {
    return std::to_string(draw.entry) + " " + describe(draw.problem) + " seed " +
           std::to_string(draw.problem.attention.seed);
}

/// FNV-1a: the same on every machine, as std::hash need not be.
std::uint64_t hash_of(const std::string& text, std::uint64_t hash = 0xcbf29ce484222325) {
    for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
    return hash;
}

// These change when something is added to what is drawn, and to the tables that are drawn from (device profiles, bad
// inputs). Then the old numbers mean other problems, and the new values belong here.
TEST(FuzzDraw, ProblemIOfSeedSIsTheSameEverywhere) {
    const auto entries = one_of_each_form();
    EXPECT_EQ(line_of(draw_problem(entries, 42, 0)),
              "1 bf16_q57_k186_d3_tiny_q_expanded_heads_k_expanded_heads, called twice seed 510662");
    EXPECT_EQ(line_of(draw_problem(entries, 42, 1)),
              "3 f32_h8_kv1_q3_k255_d16_k_packed_qkv, splits 4, kv_lengths {255}, with two split counts seed 287142");
    EXPECT_EQ(line_of(draw_problem(entries, 43, 1)),
              "0 f16_q4_k182_d16_falling_scores_k_padded_heads_v_expanded_heads, on v100 seed 837501");
    std::uint64_t hash = 0xcbf29ce484222325;
    for (std::uint64_t number = 0; number < 2000; ++number)
        hash = hash_of(line_of(draw_problem(entries, 7, number)), hash);
    EXPECT_EQ(hash, 2755888319473295913u);
}

TEST(FuzzDraw, OrderDoesNotMatter) {
    const auto entries = one_of_each_form();
    const std::string alone = line_of(draw_problem(entries, 9, 500));
    for (std::uint64_t number = 490; number < 500; ++number) draw_problem(entries, 9, number);
    EXPECT_EQ(line_of(draw_problem(entries, 9, 500)), alone);
}

TEST(FuzzDraw, SeedsAndNumbersGiveDifferentProblems) {
    const auto entries = one_of_each_form();
    std::set<std::string> lines;
    for (std::uint64_t seed = 0; seed < 40; ++seed)
        for (std::uint64_t number = 0; number < 40; ++number) {
            const Draw draw = draw_problem(entries, seed, number);
            if (draw.problem.bad_call.empty()) lines.insert(line_of(draw));
        }
    EXPECT_GT(lines.size(), 1500u);
}

// Alone, a sequence may make too few blocks for the kernel that its batch got.
TEST(FuzzDraw, NeighboursMayMatterWhereTheKernelIsChosenBySize) {
    auto entries = one_of_each_form();
    const auto asked_for = [&](bool in_float32) {
        int count = 0;
        for (std::uint64_t number = 0; number < 4000; ++number) {
            const auto [index, p] = draw_problem(entries, 5, number);
            count += index == 1 && p.property == Property::ignores_batch_neighbours &&
                     (p.attention.dtype == torch::kFloat32) == in_float32;
        }
        return count;
    };
    const int of_others = asked_for(false);
    EXPECT_GT(of_others, 5);
    EXPECT_GT(asked_for(true), 3);
    entries[1].chooses_by_size = true;
    EXPECT_EQ(asked_for(true), 0);
    EXPECT_EQ(asked_for(false), of_others);
}

TEST(FuzzDraw, EveryProblemIsDecidableAndBounded) {
    const auto entries = one_of_each_form();
    for (std::uint64_t number = 0; number < 5000; ++number) {
        const auto [index, p] = draw_problem(entries, 3, number);
        const Entry& entry = entries[index];
        const reference::AttentionCase& c = p.attention;
        ASSERT_TRUE(is_decidable(entry, p)) << describe(p);
        ASSERT_LE(reference::work(c), entry.most_work) << describe(p);
        ASSERT_LE(c.query_length, entry.longest_query) << describe(p);
        ASSERT_LE(c.key_length, entry.longest_key) << describe(p);
        ASSERT_TRUE(c.head_dim >= 1 && c.head_dim <= 256) << describe(p);
        ASSERT_EQ(c.query_heads % c.kv_heads, 0) << describe(p);
        ASSERT_NE(std::ranges::find(entry.masks, c.options.mask), entry.masks.end()) << describe(p);
        if (p.kv_lengths) {
            ASSERT_EQ(std::int64_t(p.kv_lengths->size()), c.batch) << describe(p);
        }
        ASSERT_EQ(p.block_rows.has_value() && entry.form != Form::blocked, false) << describe(p);
        ASSERT_EQ((p.splits || p.kv_lengths) && entry.form != Form::decode, false) << describe(p);
    }
}

TEST(FuzzDraw, KnowsWhatTheReferenceCannotDecide) {
    const auto entries = one_of_each_form();
    const Entry &attention = entries[1], &blocked = entries[2];
    Problem p;
    p.attention = {.query_length = 70, .key_length = 70, .head_dim = 64};
    for (const Entry& entry : entries) EXPECT_TRUE(is_decidable(entry, p));

    Problem steep = p;
    steep.attention.options.scale = 0x1.1p17;  // scores to 2^24 and more
    EXPECT_FALSE(is_decidable(attention, steep));
    steep.attention.options.scale = 0x1p17;
    EXPECT_TRUE(is_decidable(attention, steep));
    steep.attention.dtype = torch::kFloat16;
    steep.attention.options.scale = 1.1;
    EXPECT_FALSE(is_decidable(attention, steep));
    steep.attention.options.scale = 1.0;
    EXPECT_TRUE(is_decidable(attention, steep));

    Problem divides_by_nothing = p;
    divides_by_nothing.attention.family = reference::Family::rising_scores;
    EXPECT_TRUE(is_decidable(attention, divides_by_nothing));
    divides_by_nothing.attention.options.scale = 0.0;
    EXPECT_FALSE(is_decidable(attention, divides_by_nothing));

    Problem infinite_value = p;
    infinite_value.non_finite = NonFinite{.argument = NonFinite::Argument::v};
    EXPECT_TRUE(is_decidable(attention, infinite_value));
    infinite_value.attention.family = reference::Family::one_huge_logit;
    EXPECT_FALSE(is_decidable(attention, infinite_value));

    Problem few_rows = p;
    few_rows.attention.dtype = torch::kFloat16;
    EXPECT_TRUE(is_decidable(blocked, few_rows));
    few_rows.attention.query_length = 63;
    EXPECT_FALSE(is_decidable(blocked, few_rows));
    EXPECT_TRUE(is_decidable(attention, few_rows));
    few_rows.attention.query_length = 33;
    few_rows.attention.batch = 2;
    EXPECT_TRUE(is_decidable(blocked, few_rows));
    few_rows.attention.layouts.q = reference::Layout::expanded_batch;
    EXPECT_FALSE(is_decidable(blocked, few_rows));
    few_rows.attention.layouts = {};
    few_rows.attention.batch = 1;
    few_rows.attention.query_length = 64;
    few_rows.attention.head_dim = 16;
    EXPECT_TRUE(is_decidable(blocked, few_rows));
    few_rows.attention.head_dim = 4;  // 256 results
    EXPECT_FALSE(is_decidable(blocked, few_rows));

    Entry rounds_weights = attention;
    rounds_weights.rounds_weights = true;
    Problem few_results = p;
    few_results.attention.dtype = torch::kBFloat16;
    few_results.attention.query_length = few_results.attention.head_dim = 8;
    EXPECT_TRUE(is_decidable(rounds_weights, few_results));
    few_results.attention.head_dim = 7;
    EXPECT_FALSE(is_decidable(rounds_weights, few_results));
    EXPECT_TRUE(is_decidable(attention, few_results));
    few_results.attention.dtype = torch::kFloat32;
    EXPECT_TRUE(is_decidable(rounds_weights, few_results));
    Problem rows_alike = p;
    rows_alike.attention.dtype = torch::kBFloat16;
    rows_alike.attention.head_dim = 1;
    EXPECT_TRUE(is_decidable(rounds_weights, rows_alike));
    rows_alike.attention.family = reference::Family::falling_scores;
    EXPECT_FALSE(is_decidable(rounds_weights, rows_alike));

    Problem odd_scale = p;
    odd_scale.attention.head_dim = 60;  // 1 / sqrt(60) is no power of two
    EXPECT_TRUE(is_decidable(blocked, odd_scale));
    odd_scale.attention.dtype = torch::kFloat16;
    EXPECT_FALSE(is_decidable(blocked, odd_scale));
    EXPECT_TRUE(is_decidable(attention, odd_scale));
    odd_scale.attention.options.scale = -0.125;
    EXPECT_TRUE(is_decidable(blocked, odd_scale));

    Problem equal_terms = p;
    equal_terms.attention.family = reference::Family::index_ramp;
    EXPECT_TRUE(is_decidable(blocked, equal_terms));
    equal_terms.attention.key_length = 257;
    EXPECT_FALSE(is_decidable(blocked, equal_terms));
    EXPECT_TRUE(is_decidable(attention, equal_terms));
}

TEST(FuzzDraw, CoversTheWholeSpace) {
    const auto entries = one_of_each_form();
    std::map<std::string, int> seen;
    for (std::uint64_t number = 0; number < 20'000; ++number) {
        const auto [index, p] = draw_problem(entries, 11, number);
        const reference::AttentionCase& c = p.attention;
        const auto see = [&](const std::string& what, std::int64_t value) { ++seen[what + std::to_string(value)]; };
        see("form ", int(entries[index].form));
        see("batch ", c.batch);
        see("kv heads ", c.kv_heads);
        see("group ", c.query_heads / c.kv_heads);
        see("queries ", c.query_length);
        see("keys ", c.key_length);
        see("head dim ", c.head_dim);
        see("dtype ", int(c.dtype));
        see("family ", int(c.family));
        see("layout of q ", int(c.layouts.q));
        see("layout of k ", int(c.layouts.k));
        see("layout of v ", int(c.layouts.v));
        if (entries[index].form != Form::softmax) ++seen[c.layouts.k == c.layouts.v ? "k like v" : "k unlike v"];
        see("mask ", int(c.options.mask));
        see("property ", int(p.property));
        see("workers ", p.workers);
        ++seen["profile " + p.profile];
        if (c.options.scale)
            ++seen[*c.options.scale < 0 ? "scale < 0" : *c.options.scale > 0 ? "scale > 0" : "scale 0"];
        if (p.non_finite) see("non-finite ", 10 * int(p.non_finite->argument) + int(p.non_finite->value));
        if (p.splits) see("splits ", *p.splits);
        for (const std::int64_t length : p.kv_lengths.value_or(std::vector<std::int64_t>())) see("length ", length);
        if (p.block_rows) see("block rows ", *p.block_rows);
        if (!p.bad_call.empty()) ++seen["bad call"];
    }
    const auto expect = [&](const std::string& what, const std::vector<std::int64_t>& values, int times) {
        for (const std::int64_t value : values) EXPECT_GE(seen[what + std::to_string(value)], times) << what << value;
    };
    expect("form ", {0, 1, 2, 3}, 4000);
    expect("batch ", {1, 2, 3, 5}, 100);
    expect("kv heads ", {1, 2, 3}, 100);
    expect("group ", {1, 2, 3, 4, 8, 9}, 100);
    expect("queries ", {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129}, 20);
    expect("keys ", {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513}, 20);
    expect("head dim ", {1, 2, 3, 8, 16, 31, 32, 33, 48, 63, 64, 65, 80, 96, 112, 128, 129, 160, 192, 200, 255, 256},
           20);
    expect("dtype ", {int(torch::kFloat32), int(torch::kFloat16), int(torch::kBFloat16)}, 4000);
    expect("family ", {0, 1, 2, 3, 4, 5, 6, 7, 8}, 500);
    for (const char* tensor : {"q ", "k ", "v "})
        expect(std::string("layout of ") + tensor, {0, 1, 2, 3, 4, 5, 6, 7, 8}, 800);
    EXPECT_GE(seen["k unlike v"], 7000);
    expect("mask ", {0, 1, 2}, 500);
    expect("property ", {0, 1, 2, 3}, 100);
    expect("workers ", {1, 2, 3, 4}, 500);
    expect("non-finite ", {0, 1, 2, 10, 11, 12, 20, 21, 22}, 20);
    expect("splits ", {1, 2, 3, 4, 7, 20}, 50);
    expect("length ", {0, 1, 128}, 10);
    expect("block rows ", {1, 16, 31, 64, 128}, 10);
    for (const char* what : {"scale < 0", "scale > 0", "scale 0", "bad call"}) EXPECT_GE(seen[what], 200) << what;
    for (const simt::DeviceProfile& profile : simt::device_profiles())
        EXPECT_GE(seen["profile " + std::string(profile.name)], 500) << profile.name;
}

TEST(FuzzDraw, CoversWhatIsAskedOfEightBits) {
    Entry entry = honest_entry(Form::eight_bits);
    entry.dtypes = {torch::kFloat16, torch::kBFloat16};
    std::map<std::string, int> seen;
    for (std::uint64_t number = 0; number < 3000; ++number) {
        const Problem p = draw_problem({&entry, 1}, 12, number).problem;
        const EightBits& e = p.eight_bits;
        const std::int64_t growth = std::abs(e.sizes.value_growth);
        EXPECT_TRUE(!e.first_query || (p.attention.head_dim % 2 == 0 && *e.first_query >= 0)) << describe(p);
        EXPECT_LE(growth, p.attention.dtype == torch::kFloat16 ? 2 : 9) << describe(p);
        ++seen[e.rotated ? "rotated" : "not rotated"];
        ++seen[e.values_in_e5m2 ? "e5m2" : "e4m3"];
        ++seen[e.first_query ? *e.first_query > 0 ? "rotary further on" : "rotary from 0" : "no rotary"];
        ++seen[e.sizes.value_growth > 0 ? "values grow" : e.sizes.value_growth < 0 ? "values shrink" : "values alike"];
        ++seen[e.sizes.key_growth > 0 ? "keys grow" : e.sizes.key_growth < 0 ? "keys shrink" : "keys alike"];
        ++seen[e.sizes.outliers ? "outliers" : "no outliers"];
        if (p.attention.key_length > kScaledRows && growth != 0) ++seen["several scales"];
        if (p.bad_call.starts_with("rotary_")) ++seen["bad tables"];
        if (p.non_finite) ++seen["not finite"];
    }
    for (const char* what : {"rotated", "not rotated", "e5m2", "e4m3", "rotary further on", "rotary from 0",
                             "no rotary", "values grow", "values shrink", "values alike", "keys grow", "keys shrink",
                             "keys alike", "outliers", "no outliers", "several scales", "not finite"})
        EXPECT_GE(seen[what], 150) << what;
    EXPECT_GE(seen["bad tables"], 10);
}

TEST(FuzzDraw, NobodyElseIsAskedForEightBits) {
    const auto entries = one_of_each_form();
    for (std::uint64_t number = 0; number < 500; ++number) {
        const Draw draw = draw_problem(entries, 13, number);
        EXPECT_EQ(draw.problem.eight_bits, EightBits()) << describe(draw.problem);
    }
}

}  // namespace
}  // namespace ladder::fuzz
