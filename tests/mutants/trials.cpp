#include "tests/mutants/trials.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <regex>
#include <stdexcept>

#include "common/reference/large_device.h"
#include "common/reference/register_tile_checks.h"
#include "common/simt/report/machine_error.h"
#include "tests/mutants/mutants.h"

namespace ladder::mutants {
namespace {

bool hangs(simt::Fault fault) {
    return fault == simt::Fault::barrier_divergence || fault == simt::Fault::collective_divergence ||
           fault == simt::Fault::deadlock || fault == simt::Fault::endless;
}

/// How far beyond its bound a result is, by the report of its comparison; infinite if that does not say.
double factor_in(const std::string& report) {
    static const std::regex kFactor(R"(off by \S+, (\S+) times its bound)");
    double largest = 0;
    for (std::sregex_iterator match(report.begin(), report.end(), kFactor), end; match != end; ++match)
        largest = std::max(largest, std::stod((*match)[1]));
    return largest > 0 ? largest : std::numeric_limits<double>::infinity();
}

/// Runs a check, which may throw what the kernel threw, or turn it into a message and keep it in its argument.
/// What neither machine nor launch threw is a mistake in the trial, and goes through.
template <class Check>
Outcome outcome_of(Check&& check) {
    std::exception_ptr thrown;
    std::string message;
    try {
        const ::testing::AssertionResult verdict = check(thrown);
        if (verdict) return {};
        message = verdict.message();
    } catch (const std::exception& error) {
        thrown = std::current_exception();
        message = reference::message_of(error);
    }
    if (!thrown) {
        Outcome wrong{std::string(kReference), "comparison with the reference", message};
        wrong.factor = factor_in(message);
        return wrong;
    }
    try {
        std::rethrow_exception(thrown);
    } catch (const simt::MachineError& error) {
        const simt::Fault fault = error.report().fault;
        return {identifier_of(fault), std::string(simt::name_of(fault)), error.what(), hangs(fault)};
    } catch (const simt::LaunchError& error) {
        return {std::string(kLaunch), "refused launch", error.what()};
    } catch (const std::invalid_argument& error) {  // by host code, of a problem that it should take
        return {std::string(kReference), "a good call is refused", error.what()};
    }
}

/// Queries and keys are positive, so that an infinite element decides the sign of every score that it enters.
::testing::AssertionResult infinities_stay_right(const reference::AttentionEntry& entry, torch::ScalarType dtype) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    at::manual_seed(13);
    const auto positive = [&](int64_t length) { return (at::rand({1, 1, length, 16}) + 0.5).to(dtype); };
    const torch::Tensor q = positive(12), k = positive(140), v = positive(140);
    q.select(2, 3).fill_(-kInfinity);
    const torch::Tensor first_tile_of_minus_infinities = k.clone(), infinity_after_huge = k.clone();
    first_tile_of_minus_infinities.slice(2, 0, 64).fill_(-kInfinity);
    infinity_after_huge.select(2, 0).fill_(100);  // the weights of the other keys underflow
    infinity_after_huge.select(2, 70).fill_(kInfinity);
    for (const torch::Tensor& keys : {k, first_tile_of_minus_infinities, infinity_after_huge}) {
        const auto verdict = reference::compare_attention(entry(q, keys, v, {}), q, keys, v);
        if (!verdict.passed) return ::testing::AssertionFailure() << verdict.report;
    }
    return ::testing::AssertionSuccess();
}

/// In 16 bits, what follows a value so large that neighbours are 1 apart there rounds away, and should not. Values for
/// which all of that holds come every 64 keys, so every tile has some.
::testing::AssertionResult small_values_count(const reference::AttentionEntry& entry, torch::ScalarType dtype) {
    at::manual_seed(14);
    const torch::Tensor q = at::zeros({1, 1, 8, 8}).to(dtype), k = at::randn({1, 1, 192, 8}).to(dtype);
    const torch::Tensor v = at::full({1, 1, 192, 8}, 0.49).to(dtype);
    v.slice(2, 0, v.size(2), 64).fill_(dtype == torch::kFloat16 ? 1024 : 128);
    const auto verdict = reference::compare_attention(entry(q, k, v, {}), q, k, v);
    if (verdict.passed) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << verdict.report;
}

}  // namespace

Trial infinities_trial(std::string name, reference::AttentionEntry entry, torch::ScalarType dtype) {
    return trial(std::move(name), [=] { return infinities_stay_right(entry, dtype); });
}

Trial attention_trial(reference::AttentionEntry entry, reference::AttentionCase problem,
                      std::optional<torch::Tensor> kv_lengths) {
    const std::string name = problem.name;
    return {name, [=] {
                return outcome_of([&](std::exception_ptr& thrown) {
                    const auto remembering = [&](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                                 const AttentionOptions& options) {
                        try {
                            return entry(q, k, v, options);
                        } catch (...) {
                            thrown = std::current_exception();
                            throw;
                        }
                    };
                    return reference::matches_reference(remembering, problem, torch::kCPU, reference::Lse::present,
                                                        kv_lengths);
                });
            }};
}

Trial trial(std::string name, std::function<::testing::AssertionResult()> check) {
    return {std::move(name), [=] { return outcome_of([&](std::exception_ptr&) { return check(); }); }};
}

std::vector<Trial> attention_trials(const reference::AttentionEntry& entry, torch::ScalarType dtype,
                                    const std::string& prefix) {
    using reference::Family, reference::Layout;
    const reference::AttentionCase cases[] = {
        {.name = "one_key", .query_length = 12, .key_length = 1, .head_dim = 32, .family = Family::equal_scores},
        {.name = "given_scale", .query_length = 9, .key_length = 64, .head_dim = 8, .options = {.scale = 0.7}},
        {.name = "odd_columns", .query_length = 33, .key_length = 131, .head_dim = 27},
        {.name = "minus_1000",
         .query_length = 20,
         .key_length = 129,
         .head_dim = 32,
         .family = Family::scores_near_minus_1000},
        {.name = "huge",
         .query_heads = 2,
         .kv_heads = 2,
         .query_length = 40,
         .key_length = 140,
         .head_dim = 16,
         .family = Family::one_huge_logit},
        {.name = "unaligned_rows",
         .query_heads = 2,
         .kv_heads = 1,
         .query_length = 65,
         .key_length = 193,
         .head_dim = 24,
         .family = Family::rising_scores,
         .layouts = {Layout::padded_rows, Layout::padded_rows, Layout::padded_rows}},
        {.name = "grouped_heads",
         .batch = 2,
         .query_heads = 4,
         .kv_heads = 2,
         .query_length = 70,
         .key_length = 150,
         .head_dim = 32},
        {.name = "own_layouts",
         .batch = 2,
         .query_heads = 4,
         .kv_heads = 2,
         .query_length = 20,
         .key_length = 70,
         .head_dim = 32,
         .layouts = {Layout::sliced_offset, Layout::bshd, Layout::packed_qkv}},
        {.name = "unaligned_keys",
         .query_length = 20,
         .key_length = 70,
         .head_dim = 32,
         .layouts = {Layout::contiguous, Layout::padded_rows, Layout::shifted}},
    };
    std::vector<Trial> trials;
    const auto add = [&](reference::AttentionCase problem) {
        problem.name = prefix + problem.name;
        problem.dtype = dtype;
        trials.push_back(attention_trial(entry, problem));
    };
    for (const reference::AttentionCase& problem : cases) add(problem);
    if (dtype != torch::kFloat32) {  // sums that 16 bits cannot hold
        trials.push_back(trial(prefix + "small_values", [=] { return small_values_count(entry, dtype); }));
        add({.name = "long_sum",
             .query_length = 8,
             .key_length = 700,
             .head_dim = 8,
             .family = Family::offset_values,
             .options = {.scale = 1e-3}});
    }
    return trials;
}

std::vector<Trial> register_tile_trials(const reference::AttentionEntry& entry, torch::ScalarType dtype) {
    if (dtype != torch::kFloat32) return {};
    const reference::AttentionEntry on_large = reference::on_large_device(entry);
    std::vector<Trial> trials = attention_trials(on_large, dtype, "tiled_");
    const reference::AttentionCase cases[] = {
        {.name = "tiled_scale_of_zero", .query_length = 9, .key_length = 70, .head_dim = 8, .options = {.scale = 0.0}},
        {.name = "tiled_negative_scale",
         .query_length = 12,
         .key_length = 70,
         .head_dim = 32,
         .family = reference::Family::one_huge_logit,
         .options = {.scale = -0.7}},
        {.name = "tiled_exact_scores",  // at D = 16 the scale is a power of two: the bound leaves no room for rounding
         .query_length = 20,
         .key_length = 129,
         .head_dim = 16,
         .family = reference::Family::scores_near_minus_1000},
        {.name = "tiled_two_query_tiles", .query_length = 131, .key_length = 129, .head_dim = 32},
    };
    for (const reference::AttentionCase& problem : cases) trials.push_back(attention_trial(on_large, problem));
    trials.push_back(infinities_trial("tiled_infinities", on_large));
    trials.push_back(trial("tiled_large_scores",
                           [=] { return reference::large_scores_stay_right(on_large, 32, Mask::none, torch::kCPU); }));
    return trials;
}

}  // namespace ladder::mutants
