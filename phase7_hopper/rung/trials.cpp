#include "tests/mutants/trials.h"

#include <cmath>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

#include "common/reference/checks.h"
#include "common/simt/device/device.h"
#include "common/simt/device/device_profile.h"
#include "common/simt/report/launch_log.h"
#include "phase7_hopper/fp8/test_codes.h"
#include "phase7_hopper/hopper.h"

namespace ladder::mutants {
namespace {

using reference::AttentionCase, reference::AttentionEntry, reference::Family;
using ::testing::AssertionFailure, ::testing::AssertionResult, ::testing::AssertionSuccess;

using Function = AttentionResult (*)(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                                     const AttentionOptions&);
using Formula = GlobalBytes (*)(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                                const AttentionOptions&);

/// On an H100 with so few multiprocessors that a block which takes tile after tile takes several.
simt::Device small_h100() {
    simt::Device device = simt::device_from(simt::device_profile("h100"));
    device.multiprocessors = 2;
    return device;
}

AttentionEntry on_h100(Function function) {
    return
        [=](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, const AttentionOptions& options) {
            const simt::ScopedCpuDevice imitated(small_h100());
            return function(q, k, v, options);
        };
}

/// Values of all kinds that some rows see and some do not, and a key that is not a number.
AssertionResult what_is_hidden_does_no_harm(const AttentionEntry& entry, int64_t queries, int64_t keys,
                                            torch::ScalarType dtype) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
    at::manual_seed(15);
    const auto random = [&](int64_t length) { return at::randn({1, 1, length, 16}).to(dtype); };
    const torch::Tensor q = random(queries), k = random(keys), v = random(keys);
    for (const auto& [from_end, column, value] :
         {std::tuple<int, int, float>{78, 12, kInfinity}, {40, 9, kNaN}, {25, 0, -kInfinity}, {1, 15, kInfinity}})
        v[0][0][keys - from_end][column] = value;
    k[0][0][keys - 20].fill_(kNaN);
    const AttentionOptions options{.scale = {}, .mask = Mask::causal_bottom_right};
    const auto verdict = reference::compare_attention(entry(q, k, v, options), q, k, v, options);
    if (verdict.passed) return AssertionSuccess();
    return AssertionFailure() << verdict.report;
}

/// Nothing is read twice, and nothing that the mask spares.
AssertionResult moves_what_the_formula_says(const AttentionEntry& entry, Formula formula, torch::ScalarType dtype) {
    const torch::Tensor q = at::ones({1, 1, 70, 32}).to(dtype), k = at::ones({1, 1, 330, 32}).to(dtype);
    const AttentionOptions options{.scale = {}, .mask = Mask::causal_top_left};
    const simt::LaunchLog log(simt::LaunchLog::Detail::bytes);
    entry(q, k, k, options);
    const simt::Counters& counters = log.records()[0].counters;
    const GlobalBytes expected = formula(q, k, k, options);
    const GlobalBytes moved{.read = counters.global_bytes_read(), .written = counters.global_bytes_written()};
    if (moved == expected) return AssertionSuccess();
    return AssertionFailure() << moved.read << " bytes read and " << moved.written << " written, where "
                              << expected.read << " and " << expected.written << " would do";
}

/// Attention in 8 bits against what its codes stand for.
AssertionResult codes_are_right(int64_t queries, int64_t keys, Mask mask, torch::ScalarType dtype, double scale = 0.2,
                                const Fp8Options& how = {}, double growth = 0.0) {
    const simt::ScopedCpuDevice imitated(small_h100());
    at::manual_seed(16);
    const torch::Tensor q = fp8::with_outliers({1, 2, queries, 40}, dtype),
                        k = fp8::with_outliers({1, 1, keys, 40}, dtype);
    // Blocks whose sizes differ: by 2^growth from each to the next.
    const torch::Tensor size = at::pow(2.0, at::arange(keys).div(128, "floor") * growth).view({keys, 1});
    const torch::Tensor v = (fp8::with_outliers({1, 1, keys, 40}, dtype) * size).to(dtype);
    return fp8::agrees_with_its_codes(q, (k * size).to(dtype), v, {.scale = scale, .mask = mask}, how);
}

/// Keys in the middle have some 2^4.35 times the weight of others, from whichever end a kernel comes to them, and other
/// values.
AssertionResult scores_that_rise_are_right(torch::ScalarType dtype) {
    const simt::ScopedCpuDevice imitated(small_h100());
    const int64_t a_third = 256, head_dim = 64;
    const torch::Tensor third = at::arange(3 * a_third).div(a_third, "floor").view({1, 1, 3 * a_third, 1}),
                        in_the_middle = third.eq(1).expand({1, 1, 3 * a_third, head_dim}).to(at::kFloat);
    return fp8::agrees_with_its_codes(at::ones({1, 1, 70, head_dim}, dtype),
                                      (in_the_middle * (4.35 * std::log(2.0) / double(head_dim))).to(dtype),
                                      (2.0 * in_the_middle - 1.0).to(dtype), {.scale = 1.0}, {.rotated = false});
}

/// Rotated, turned and rounded, Q K^T is what it was.
AssertionResult quantizing_keeps_products(torch::ScalarType dtype, bool rotated, bool turned) {
    const simt::ScopedCpuDevice imitated(small_h100());
    at::manual_seed(17);
    const torch::Tensor q = fp8::with_outliers({1, 1, 70, 40}, dtype), k = fp8::with_outliers({1, 1, 150, 40}, dtype);
    const auto table = [](float value) { return at::full({150, 20}, value); };
    Fp8Options how{.rotated = rotated};
    if (turned) how.rotary = Rotary{table(0.6f), table(0.8f), 3};  // all positions alike: products stay as they are
    const Fp8Operands codes = quantize_to_8_bits(q, k, k, {.scale = -1.0}, how);
    const torch::Tensor expected = -at::matmul(q.to(at::kDouble), k.to(at::kDouble).mT());
    const torch::Tensor got = at::matmul(fp8::values_of_q(codes), fp8::values_of_k(codes).mT());
    const double error = fp8::rms(got - expected) / fp8::rms(expected);
    const double of_values =
        fp8::rms(fp8::values_of_v(codes).slice(3, 0, 40) - k.to(at::kDouble)) / fp8::rms(k.to(at::kDouble));
    if (error < 0.05 && of_values < 0.04) return AssertionSuccess();
    return AssertionFailure() << "products err by " << error << " of themselves, values by " << of_values;
}

/// A block that ends between the largest code and the next power of 2 takes the next exponent.
AssertionResult largest_elements_fit(torch::ScalarType dtype) {
    const simt::ScopedCpuDevice imitated(small_h100());
    const torch::Tensor x = at::full({1, 1, 150, 40}, 1.95, dtype);
    const Fp8Operands codes = quantize_to_8_bits(x, x, x, {}, {.rotated = false});
    const torch::Tensor got = fp8::values_of_v(codes).slice(3, 0, 40);
    const double error = (got / x.to(at::kDouble) - 1.0).abs().max().item<double>();
    if (error <= 1.0 / 16) return AssertionSuccess();
    return AssertionFailure() << "a number errs by " << error << " of itself; half a step is 1/16";
}

}  // namespace

std::vector<Trial> trials(torch::ScalarType dtype) {
    std::vector<Trial> trials;
    const struct {
        std::string prefix;
        AttentionEntry entry;
        Formula formula;
    } entries[] = {{"plain_", on_h100(hopper_plain_forward), hopper_plain_bytes},
                   {"turns_", on_h100(hopper_turns_forward), hopper_turns_bytes},
                   {"overlapped_", on_h100(hopper_overlapped_forward), hopper_overlapped_bytes},
                   {"", on_h100(hopper_forward), hopper_forward_bytes}};

    const auto add = [&](const AttentionCase& problem) {
        for (const auto& [prefix, entry, formula] : entries) {
            AttentionCase named = problem;
            named.name = prefix + problem.name;
            named.dtype = dtype;
            named.seed = 31;
            trials.push_back(attention_trial(entry, named));
        }
    };
    add({.name = "one_tile", .query_heads = 2, .kv_heads = 1, .query_length = 5, .key_length = 9, .head_dim = 24});
    add({.name = "bottom_right",
         .query_heads = 2,
         .kv_heads = 1,
         .query_length = 70,
         .key_length = 210,
         .head_dim = 32,
         .options = {.scale = {}, .mask = Mask::causal_bottom_right}});
    for (const auto& [name, queries, keys] : {std::tuple("hidden", 70, 100), {"hidden_in_several_tiles", 140, 300}})
        for (const auto& [prefix, entry, formula] : entries)
            trials.push_back(trial(prefix + name, [entry = entry, queries = queries, keys = keys, dtype] {
                return what_is_hidden_does_no_harm(entry, queries, keys, dtype);
            }));
    add({.name = "many_tiles", .query_heads = 5, .kv_heads = 5, .query_length = 20, .key_length = 700, .head_dim = 64});
    add({.name = "many_masked_tiles",
         .query_length = 192,
         .key_length = 900,
         .head_dim = 64,
         .family = Family::rising_scores,
         .options = {.scale = {}, .mask = Mask::causal_bottom_right}});
    add({.name = "negative_scale",
         .query_length = 140,
         .key_length = 75,
         .head_dim = 32,
         .family = Family::one_huge_logit,
         .options = {.scale = -0.7, .mask = Mask::causal_top_left}});
    add({.name = "rows_that_see_nothing",
         .batch = 2,
         .query_heads = 2,
         .kv_heads = 2,
         .query_length = 150,
         .key_length = 60,
         .head_dim = 32,
         .options = {.scale = {}, .mask = Mask::causal_bottom_right}});
    add({.name = "top_left",
         .query_length = 260,
         .key_length = 300,
         .head_dim = 24,
         .options = {.scale = {}, .mask = Mask::causal_top_left}});
    for (const auto& [prefix, entry, formula] : entries) {
        trials.push_back(infinities_trial(prefix + "infinities", entry, dtype));
        trials.push_back(trial(prefix + "bytes", [entry = entry, formula = formula, dtype] {
            return moves_what_the_formula_says(entry, formula, dtype);
        }));
    }
    trials.push_back(trial("fp8_scores_rise", [dtype] { return scores_that_rise_are_right(dtype); }));
    trials.push_back(
        trial("fp8_bottom_right", [dtype] { return codes_are_right(70, 330, Mask::causal_bottom_right, dtype); }));
    trials.push_back(trial("fp8_many_tiles", [dtype] { return codes_are_right(200, 900, Mask::none, dtype); }));
    trials.push_back(trial("fp8_rows_that_see_nothing",
                           [dtype] { return codes_are_right(150, 60, Mask::causal_bottom_right, dtype); }));
    trials.push_back(
        trial("fp8_growing_blocks", [dtype] { return codes_are_right(70, 500, Mask::none, dtype, 0.2, {}, 1.0); }));
    trials.push_back(
        trial("fp8_shrinking_blocks", [dtype] { return codes_are_right(70, 500, Mask::none, dtype, 0.2, {}, -1.0); }));
    trials.push_back(
        trial("fp8_large_scale", [dtype] { return codes_are_right(70, 400, Mask::causal_top_left, dtype, 2.0); }));
    trials.push_back(trial("fp8_e5m2", [dtype] {
        return codes_are_right(70, 200, Mask::none, dtype, 0.2, {.values = ValueCodes::e5m2});
    }));
    for (const auto& [name, rotated, turned] :
         {std::tuple("fp8_rounds", false, false), {"fp8_rotates", true, false}, {"fp8_turns", true, true}})
        trials.push_back(trial(name, [dtype, rotated = rotated, turned = turned] {
            return quantizing_keeps_products(dtype, rotated, turned);
        }));
    trials.push_back(trial("fp8_largest_fit", [dtype] { return largest_elements_fit(dtype); }));
    return trials;
}

}  // namespace ladder::mutants
