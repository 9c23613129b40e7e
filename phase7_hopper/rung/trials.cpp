#include "tests/mutants/trials.h"

#include <limits>
#include <utility>

#include "common/reference/checks.h"
#include "common/simt/device/device.h"
#include "common/simt/device/device_profile.h"
#include "common/simt/report/launch_log.h"
#include "phase6_tensor_cores/mma.h"

namespace ladder::mutants {
namespace {

using reference::AttentionCase, reference::AttentionEntry, reference::Family;
using ::testing::AssertionFailure, ::testing::AssertionResult, ::testing::AssertionSuccess;

/// Values of all kinds that some rows see and some do not, in either half of a register, of a fragment and of a tile;
/// and a key that is not a number.
AssertionResult what_is_hidden_does_no_harm(const AttentionEntry& entry, torch::ScalarType dtype, Mask mask) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
    at::manual_seed(15);
    const auto random = [&](int64_t length) { return at::randn({1, 1, length, 16}).to(dtype); };
    const torch::Tensor q = random(70), k = random(110), v = random(110), of_values = v.clone(), of_a_key = k.clone();
    for (const auto& [key, column, value] : {std::tuple<int, int, float>{5, 3, kNaN},
                                             {22, 12, kInfinity},
                                             {33, 0, -kInfinity},
                                             {60, 9, kNaN},
                                             {99, 6, kNaN},
                                             {109, 15, kInfinity}})
        of_values[0][0][key][column] = value;
    of_a_key[0][0][50].fill_(kNaN);
    const AttentionOptions options{.scale = {}, .mask = mask};
    for (const auto& [keys, values] : {std::pair{k, of_values}, {of_a_key, v}}) {
        const auto verdict = reference::compare_attention(entry(q, keys, values, options), q, keys, values, options);
        if (!verdict.passed) return AssertionFailure() << verdict.report;
    }
    return AssertionSuccess();
}

/// The eight rows that an ldmatrix reads at once lie in different banks: four matrices are four passes.
AssertionResult has_no_bank_conflicts(torch::ScalarType dtype) {
    const torch::Tensor q = at::ones({1, 1, 128, 32}).to(dtype);
    const simt::LaunchLog log;
    mma_forward(q, q, q);
    const simt::Counters& counters = log.records()[0].counters;
    if (counters.shared_wavefronts == counters.shared_wavefronts_ideal) return AssertionSuccess();
    return AssertionFailure() << counters.shared_wavefronts << " passes, where " << counters.shared_wavefronts_ideal
                              << " would do";
}

/// Nothing is read twice, and nothing that the mask spares.
AssertionResult moves_what_the_formula_says(const AttentionEntry& entry, decltype(mma_forward_bytes)& formula,
                                            torch::ScalarType dtype) {
    const torch::Tensor q = at::ones({1, 1, 70, 32}).to(dtype), k = at::ones({1, 1, 130, 32}).to(dtype);
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

/// Whatever the device has, two blocks share a multiprocessor, so that one works while the other waits.
AssertionResult leaves_room_for_a_second_block(torch::ScalarType dtype) {
    const torch::Tensor q = at::ones({1, 1, 1, 32}).to(dtype);
    for (const char* name : {"rtx4090", "a100", "h100"}) {
        const simt::DeviceProfile& device = simt::device_profile(name);
        const simt::ScopedCpuDevice imitated(simt::device_from(device));
        const simt::LaunchLog log(simt::LaunchLog::Detail::bytes);
        mma_forward(q, q, q);
        const std::int64_t block =
            std::int64_t(log.records()[0].shared_bytes_per_block) + device.reserved_shared_bytes_per_block;
        if (2 * block > device.shared_bytes_per_multiprocessor)
            return AssertionFailure() << name << ": a block takes " << block << " bytes of "
                                      << device.shared_bytes_per_multiprocessor;
    }
    return AssertionSuccess();
}

}  // namespace

std::vector<Trial> trials(torch::ScalarType dtype) {
    std::vector<Trial> trials;
    const std::pair<std::string, AttentionEntry> entries[] = {{"plain_", mma_plain_forward}, {"", mma_forward}};

    std::vector<Trial> of_entry[2];
    for (int n = 0; n < 2; ++n) of_entry[n] = attention_trials(entries[n].second, dtype, entries[n].first);
    for (std::size_t i = 0; i < of_entry[0].size(); ++i)
        for (auto& of_one : of_entry) trials.push_back(std::move(of_one[i]));

    const auto add = [&](const AttentionCase& problem) {
        for (const auto& [prefix, entry] : entries) {
            AttentionCase named = problem;
            named.name = prefix + problem.name;
            named.dtype = dtype;
            named.seed = 31;
            trials.push_back(attention_trial(entry, named));
        }
    };
    add({.name = "negative_scale",
         .query_length = 70,
         .key_length = 75,
         .head_dim = 32,
         .family = Family::one_huge_logit,
         .options = {.scale = -0.7}});
    add({.name = "full_tiles_of_unaligned_rows",
         .query_length = 9,
         .key_length = 130,
         .head_dim = 32,
         .layouts = {reference::Layout::contiguous, reference::Layout::shifted, reference::Layout::contiguous}});
    add({.name = "scale_of_zero", .query_length = 9, .key_length = 70, .head_dim = 8, .options = {.scale = 0.0}});
    add({.name = "bottom_right",
         .query_heads = 2,
         .kv_heads = 1,
         .query_length = 70,
         .key_length = 200,
         .head_dim = 32,
         .options = {.scale = {}, .mask = Mask::causal_bottom_right}});
    add({.name = "rows_that_see_nothing",
         .batch = 2,
         .query_heads = 2,
         .kv_heads = 2,
         .query_length = 150,
         .key_length = 100,
         .head_dim = 32,
         .options = {.scale = {}, .mask = Mask::causal_bottom_right}});
    add({.name = "top_left",
         .query_length = 140,
         .key_length = 140,
         .head_dim = 24,
         .family = Family::rising_scores,
         .options = {.scale = {}, .mask = Mask::causal_top_left}});
    for (const auto& [prefix, entry] : entries) {
        for (const auto& [name, mask] :
             {std::pair("hidden_bottom_right", Mask::causal_bottom_right), {"hidden_top_left", Mask::causal_top_left}})
            trials.push_back(trial(prefix + name, [entry = entry, dtype, mask = mask] {
                return what_is_hidden_does_no_harm(entry, dtype, mask);
            }));
        trials.push_back(infinities_trial(prefix + "infinities", entry, dtype));
    }
    trials.push_back(trial("bank_conflicts", [=] { return has_no_bank_conflicts(dtype); }));
    trials.push_back(trial("second_block", [=] { return leaves_room_for_a_second_block(dtype); }));
    trials.push_back(
        trial("plain_bytes", [=] { return moves_what_the_formula_says(mma_plain_forward, mma_plain_bytes, dtype); }));
    trials.push_back(
        trial("bytes", [=] { return moves_what_the_formula_says(mma_forward, mma_forward_bytes, dtype); }));
    // More keys than two heads have in L2 together, of which each query sees one.
    trials.push_back(attention_trial(mma_forward, {.name = "more_heads_than_walk_at_once",
                                                   .query_heads = 3,
                                                   .kv_heads = 3,
                                                   .query_length = 1,
                                                   .key_length = 96 * 1024,
                                                   .head_dim = 32,
                                                   .dtype = dtype,
                                                   .options = {.scale = {}, .mask = Mask::causal_top_left}}));
    return trials;
}

}  // namespace ladder::mutants
