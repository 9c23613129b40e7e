// What the fuzzer prints must compile as it is: printed.cpp is such text, and is built into this very program.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "common/fuzz/test_text.h"

namespace ladder::fuzz {
namespace {

constexpr const char* kOrigin = "Found by ./ladder fuzz --seed 1 --problem 2.";

Entry entry_of(const std::string& name, const std::string& file, Form form) {
    return {.name = name, .header = file + ".h", .test_file = file + "_test.cpp", .form = form};
}

std::string printed() {
    const Entry fa2 = entry_of("fa2_forward", "phase3_fa2/fa2", Form::attention),
                blocked = entry_of("q_blocked_attention", "phase1_naive/naive", Form::blocked),
                decode = entry_of("flash_decode", "phase5_decoding/decode", Form::decode),
                softmax = entry_of("safe_softmax", "phase0_softmax/softmax", Form::softmax),
                of_backward = entry_of("plain_backward", "phase8_backward/backward", Form::backward);
    Entry eight_bits = entry_of("hopper_fp8_forward", "phase7_hopper/fp8/hopper_fp8", Form::eight_bits);
    eight_bits.dtypes = {torch::kFloat16, torch::kBFloat16};
    eight_bits.needs = {simt::Feature::tma, simt::Feature::wgmma};
    eight_bits.masks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};
    eight_bits.comparison = "fp8::compare_in_8_bits";
    eight_bits.comparison_header = "phase7_hopper/fp8/compare_codes.h";
    Entry shared = entry_of("ring_attention", "phase9_ring/on_threads", Form::shared);
    shared.masks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};
    Entry backward = of_backward;
    backward.masks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};
    std::string text;
    const auto add = [&](const Entry& entry, const Problem& problem) {
        text += (text.empty() ? "" : "\n") + as_test(entry, problem, kOrigin);
    };

    Problem plain;
    plain.attention = {.query_length = 1, .key_length = 65, .head_dim = 1};
    add(fa2, plain);

    Problem every_field;
    every_field.attention = {.batch = 2,
                             .query_heads = 4,
                             .kv_heads = 2,
                             .query_length = 3,
                             .key_length = 7,
                             .head_dim = 24,
                             .dtype = torch::kFloat16,
                             .family = reference::Family::one_huge_logit,
                             .layouts = {.k = reference::Layout::bshd, .v = reference::Layout::shifted},
                             .options = {.scale = 0.125, .mask = Mask::none},
                             .seed = 5};
    every_field.profile = "gtx1080";
    every_field.workers = 3;
    every_field.block_rows = 5;
    add(blocked, every_field);

    Problem neighbours = plain;
    neighbours.attention.batch = 2;
    neighbours.non_finite = NonFinite{
        .argument = NonFinite::Argument::k, .index = {1, 0, 64, 0}, .value = NonFinite::Value::minus_infinity};
    neighbours.property = Property::ignores_batch_neighbours;
    add(fa2, neighbours);

    Problem repeated = plain;
    repeated.attention.dtype = torch::kBFloat16;
    repeated.property = Property::repeats_bitwise;
    add(fa2, repeated);

    Problem lengths;
    lengths.attention = {.batch = 2, .query_length = 2, .key_length = 300, .head_dim = 8};
    lengths.attention.options.mask = Mask::causal_bottom_right;
    lengths.kv_lengths = {0, 129};
    lengths.splits = 3;
    add(decode, lengths);
    lengths.property = Property::ignores_splits;
    add(decode, lengths);
    lengths.property = Property::ignores_batch_neighbours;
    lengths.attention.seed = 1;
    add(decode, lengths);

    Problem scores;
    scores.attention = {
        .query_length = 3, .key_length = 33, .head_dim = 16, .family = reference::Family::rising_scores};
    scores.non_finite = NonFinite{.index = {0, 0, 2, 32}};
    add(softmax, scores);
    scores.property = Property::repeats_bitwise;
    scores.attention.layouts.q = reference::Layout::padded_rows;
    add(softmax, scores);

    Problem gradients;
    gradients.attention = {.batch = 2, .query_length = 5, .key_length = 65, .head_dim = 16};
    gradients.attention.options.mask = Mask::causal_top_left;
    gradients.property = Property::repeats_bitwise;
    add(backward, gradients);
    gradients.property = Property::ignores_batch_neighbours;
    gradients.attention.seed = 1;
    add(backward, gradients);

    Problem over_ranks;
    over_ranks.attention = {.query_length = 5, .key_length = 7, .head_dim = 8};
    over_ranks.attention.options.mask = Mask::causal_bottom_right;
    over_ranks.sharing.ranks = 3;
    add(shared, over_ranks);
    over_ranks.sharing.zigzag = true;
    over_ranks.property = Property::repeats_bitwise;
    add(shared, over_ranks);

    Problem codes;
    codes.attention = {.query_length = 3, .key_length = 130, .head_dim = 16, .dtype = torch::kBFloat16};
    add(eight_bits, codes);
    text += "\n// What is printed of problems in 8 bits takes longer lines.\n// clang-format off\n";
    codes.attention.batch = 2;
    codes.eight_bits = {.rotated = false,
                        .values_in_e5m2 = true,
                        .first_query = 127,
                        .sizes = {.key_growth = -1, .value_growth = 9, .outliers = true}};
    codes.non_finite = NonFinite{.argument = NonFinite::Argument::v, .index = {1, 0, 129, 15}};
    codes.property = Property::ignores_batch_neighbours;
    add(eight_bits, codes);
    codes.property = Property::repeats_bitwise;
    codes.profile = "h200";
    add(eight_bits, codes);

    Problem bad;
    bad.bad_call = "scale_nan";
    add(fa2, bad);
    add(backward, bad);
    add(shared, bad);
    bad.bad_call = "rotary_of_odd_columns";
    add(eight_bits, bad);
    return text;
}

TEST(FuzzPrinted, IsWhatPrintedCppHolds) {
    std::ifstream file(LADDER_SOURCE_DIR "/tests/fuzz/printed.cpp");
    std::stringstream held;
    held << file.rdbuf();
    EXPECT_EQ(held.str(), printed());
}

}  // namespace
}  // namespace ladder::fuzz
