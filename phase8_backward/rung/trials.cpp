#include "tests/mutants/trials.h"

#include <limits>
#include <string>
#include <utility>

#include "common/reference/gradient_cases.h"
#include "common/reference/gradient_comparison.h"
#include "common/reference/oracle.h"
#include "common/simt/device/device.h"
#include "common/simt/device/device_profile.h"
#include "common/simt/report/launch_log.h"
#include "phase8_backward/backward.h"
#include "phase8_backward/hopper_backward.h"
#include "phase8_backward/mma_backward.h"

namespace ladder::mutants {
namespace {

using reference::AttentionCase, reference::BackwardInputs, reference::Family, reference::Layout;
using ::testing::AssertionFailure, ::testing::AssertionResult, ::testing::AssertionSuccess;

/// An entry, its traffic formula, and how it gathers dQ.
struct Backward {
    std::string prefix;  // of its trials
    decltype(plain_backward)* call;
    decltype(plain_backward_bytes)* bytes;
    DqGather gather;
};

/// An entry on an H100.
template <auto entry>
AttentionGradients on_h100(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k,
                           const torch::Tensor& v, const torch::Tensor& out, const torch::Tensor& lse,
                           const AttentionOptions& options, const BackwardOptions& how,
                           const std::optional<torch::Tensor>& dlse) {
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
    return entry(dout, q, k, v, out, lse, options, how, dlse);
}
constexpr auto on_hopper = on_h100<hopper_backward>;

AttentionGradients gradients(const BackwardInputs& x, const Backward& entry, bool with_dlse = true) {
    return entry.call(x.dout, x.q, x.k, x.v, x.out, x.lse, x.options, {.gather = entry.gather},
                      with_dlse ? std::optional(x.dlse) : std::nullopt);
}

AssertionResult matches_oracle(const AttentionCase& problem, const Backward& entry, bool with_dlse) {
    const BackwardInputs x = reference::make_backward_inputs(problem, torch::kCPU);
    const auto verdict =
        reference::compare_gradients(gradients(x, entry, with_dlse), x.q, x.k, x.v, {x.out, x.lse}, x.dout, x.options,
                                     with_dlse ? std::optional(x.dlse) : std::nullopt);
    if (verdict.passed) return AssertionSuccess();
    return AssertionFailure() << verdict.report;
}

/// A key that holds NaN reaches no query before it, and a query that does no key behind it; but all others they do.
AssertionResult what_is_hidden_does_no_harm(const Backward& entry, torch::ScalarType dtype, int64_t head_dim = 32) {
    constexpr int64_t length = 150, at = 37;
    const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    AttentionCase problem{.query_heads = 2,
                          .kv_heads = 1,
                          .query_length = length,
                          .key_length = length,
                          .head_dim = head_dim,
                          .options = {.scale = {}, .mask = Mask::causal_top_left},
                          .seed = 9};
    problem.dtype = dtype;
    const BackwardInputs x = reference::make_backward_inputs(problem, torch::kCPU);
    BackwardInputs keys = x, queries = x, losses = x;
    for (torch::Tensor* tensor : {&keys.k, &keys.v, &queries.q, &queries.dout, &losses.dout}) {
        *tensor = tensor->clone();
        tensor->select(2, at).fill_(tensor == &losses.dout ? infinity : nan);
    }
    const int64_t rest = length - at - 1;
    const torch::Tensor dq = gradients(keys, entry).dq;
    if (dq.narrow(2, 0, at).isnan().any().item<bool>())
        return AssertionFailure() << "a key reached a query that does not see it";
    if (!dq.narrow(2, at, length - at).isnan().all().item<bool>())
        return AssertionFailure() << "a key did not reach a query that sees it";
    const AttentionGradients result = gradients(queries, entry);
    if (result.dk.narrow(2, at + 1, rest).isnan().any().item<bool>() ||
        result.dv.narrow(2, at + 1, rest).isnan().any().item<bool>())
        return AssertionFailure() << "a query reached a key that it does not see";
    const torch::Tensor dv = gradients(losses, entry).dv;
    if (!dv.narrow(2, at + 1, rest).isfinite().all().item<bool>())
        return AssertionFailure() << "a query's infinite gradient reached a key that it does not see";
    if (!(dv.narrow(2, 0, at + 1) == infinity).all().item<bool>())
        return AssertionFailure() << "a query's infinite gradient did not reach a key that it sees";
    return AssertionSuccess();
}

/// A key of -inf weighs nothing in any query head that reads it, and so gets no gradient.
AssertionResult keys_of_no_weight_get_none(const Backward& entry, torch::ScalarType dtype) {
    constexpr int64_t length = 150, at = 37;
    AttentionCase problem{.query_heads = 2,
                          .kv_heads = 1,
                          .query_length = length,
                          .key_length = length,
                          .head_dim = 32,
                          .options = {.scale = {}, .mask = Mask::causal_top_left},
                          .seed = 10};
    problem.dtype = dtype;
    BackwardInputs x = reference::make_backward_inputs(problem, torch::kCPU);
    x.q = x.q.abs() + 0.1, x.k = x.k.clone();  // no -inf * 0
    x.k.select(2, at).fill_(-300);             // far away: its weights are 0 as well
    const AttentionResult exact = reference::attention_oracle(x.q, x.k, x.v, x.options);
    x.out = exact.out.to(dtype), x.lse = exact.lse.to(torch::kFloat32);
    const AttentionGradients far_away = gradients(x, entry);
    x.k.select(2, at).fill_(-std::numeric_limits<float>::infinity());
    const AttentionGradients result = gradients(x, entry);
    if (result.dk.equal(far_away.dk) && result.dv.equal(far_away.dv)) return AssertionSuccess();
    return AssertionFailure() << "a key of no weight has one after all";
}

/// Nothing is read twice, and nothing that the mask spares.
AssertionResult moves_what_the_formula_says(const Backward& entry, torch::ScalarType dtype) {
    AttentionCase problem{.query_heads = 2,
                          .query_length = 150,
                          .key_length = 200,
                          .head_dim = 32,
                          .options = {.scale = {}, .mask = Mask::causal_top_left}};
    problem.dtype = dtype;
    const BackwardInputs x = reference::make_backward_inputs(problem, torch::kCPU);
    const simt::LaunchLog log(simt::LaunchLog::Detail::bytes);
    gradients(x, entry);
    const auto counted = log.total();
    const GlobalBytes expected = entry.bytes(x.q, x.k, x.v, x.options, {.gather = entry.gather}, true);
    const GlobalBytes moved{.read = counted.global_bytes_read(), .written = counted.global_bytes_written()};
    if (moved == expected) return AssertionSuccess();
    return AssertionFailure() << moved.read << " bytes read and " << moved.written << " written, where "
                              << expected.read << " and " << expected.written << " would do";
}

/// What a warp reads or writes at once lies in different banks.
AssertionResult has_no_bank_conflicts(const Backward& entry, torch::ScalarType dtype) {
    AttentionCase problem{.query_length = 70, .key_length = 70, .head_dim = 32};
    problem.dtype = dtype;
    const BackwardInputs x = reference::make_backward_inputs(problem, torch::kCPU);
    const simt::LaunchLog log;
    gradients(x, entry);
    const simt::Counters counters = log.total();
    if (counters.shared_wavefronts == counters.shared_wavefronts_ideal) return AssertionSuccess();
    return AssertionFailure() << counters.shared_wavefronts << " passes, where " << counters.shared_wavefronts_ideal
                              << " would do";
}

/// Beyond head dimension 128, where hopper_backward has a kernel of its own.
std::vector<AttentionCase> wide_cases() {
    return {{.name = "wide",
             .batch = 2,
             .query_heads = 2,
             .kv_heads = 1,
             .query_length = 150,
             .key_length = 140,
             .head_dim = 256},
            {.name = "wide_bottom_right",
             .batch = 3,
             .query_heads = 3,
             .kv_heads = 3,
             .query_length = 70,
             .key_length = 140,
             .head_dim = 200,
             .options = {.scale = {}, .mask = Mask::causal_bottom_right}}};
}

}  // namespace

std::vector<Trial> trials(torch::ScalarType dtype) {
    std::vector<Trial> trials;
    std::vector<Backward> entries = {{"", plain_backward, plain_backward_bytes, DqGather::second_pass},
                                     {"atomics_", plain_backward, plain_backward_bytes, DqGather::atomics}};
    if (dtype == torch::kFloat32) {
        entries.push_back({"tiled_", on_h100<tiled_backward>, tiled_backward_bytes, DqGather::second_pass});
        entries.push_back({"tiled_atomics_", on_h100<tiled_backward>, tiled_backward_bytes, DqGather::atomics});
    } else {
        entries.push_back({"mma_", mma_backward, mma_backward_bytes, DqGather::second_pass});
        entries.push_back({"mma_atomics_", mma_backward, mma_backward_bytes, DqGather::atomics});
        entries.push_back({"hopper_", on_hopper, hopper_backward_bytes, DqGather::in_order});
        entries.push_back({"hopper_atomics_", on_hopper, hopper_backward_bytes, DqGather::atomics});
    }
    const auto add = [&](AttentionCase problem, bool with_dlse = true) {
        problem.dtype = dtype;
        problem.seed = 31;
        for (const Backward& entry : entries)
            trials.push_back(trial(entry.prefix + problem.name,
                                   [problem, entry, with_dlse] { return matches_oracle(problem, entry, with_dlse); }));
    };
    add({.name = "one_tile", .query_heads = 2, .kv_heads = 1, .query_length = 5, .key_length = 9, .head_dim = 24});
    add({.name = "without_dlse", .query_length = 7, .key_length = 12, .head_dim = 32}, /*with_dlse=*/false);
    add({.name = "odd_columns", .query_length = 40, .key_length = 70, .head_dim = 27, .options = {.scale = 0.3}});
    add({.name = "several_tiles",
         .batch = 2,
         .query_heads = 4,
         .kv_heads = 2,
         .query_length = 70,
         .key_length = 135,
         .head_dim = 32});
    add({.name = "bottom_right",
         .query_heads = 2,
         .query_length = 75,
         .key_length = 140,
         .head_dim = 32,
         .options = {.scale = {}, .mask = Mask::causal_bottom_right}});
    add({.name = "top_left",
         .query_length = 150,
         .key_length = 100,
         .head_dim = 32,
         .options = {.scale = {}, .mask = Mask::causal_top_left}});
    add({.name = "two_heads_of_a_group",
         .query_heads = 2,
         .kv_heads = 1,
         .query_length = 150,
         .key_length = 150,
         .head_dim = 32,
         .options = {.scale = {}, .mask = Mask::causal_top_left}});
    add({.name = "rows_that_see_nothing",
         .query_heads = 2,
         .query_length = 90,
         .key_length = 20,
         .head_dim = 32,
         .options = {.scale = {}, .mask = Mask::causal_bottom_right}});
    add({.name = "keys_that_nobody_sees",
         .query_heads = 2,
         .query_length = 20,
         .key_length = 150,
         .head_dim = 32,
         .options = {.scale = {}, .mask = Mask::causal_top_left}});
    add({.name = "huge",
         .query_length = 40,
         .key_length = 70,
         .head_dim = 16,
         .family = Family::one_huge_logit,
         .options = {.scale = 0.7}});
    add({.name = "unaligned_rows",
         .query_length = 33,
         .key_length = 65,
         .head_dim = 24,
         .layouts = {Layout::padded_rows, Layout::padded_rows, Layout::shifted}});
    add({.name = "many_query_tiles",
         .query_heads = 2,
         .kv_heads = 1,
         .query_length = 270,
         .key_length = 140,
         .head_dim = 32});
    for (const Backward& entry : entries) {
        trials.push_back(
            trial(entry.prefix + "hidden", [entry, dtype] { return what_is_hidden_does_no_harm(entry, dtype); }));
        if (entry.call == on_hopper) {
            trials.push_back(
                trial(entry.prefix + "wide_hidden", [=] { return what_is_hidden_does_no_harm(entry, dtype, 200); }));
            trials.push_back(
                trial(entry.prefix + "no_weight", [=] { return keys_of_no_weight_get_none(entry, dtype); }));
            for (AttentionCase problem : wide_cases()) {
                problem.dtype = dtype;
                trials.push_back(
                    trial(entry.prefix + problem.name, [=] { return matches_oracle(problem, entry, true); }));
            }
        }
        if (entry.gather == DqGather::in_order) continue;  // nobody counts its turns
        trials.push_back(
            trial(entry.prefix + "bytes", [entry, dtype] { return moves_what_the_formula_says(entry, dtype); }));
        if (entry.call == mma_backward)
            trials.push_back(
                trial(entry.prefix + "banks", [entry, dtype] { return has_no_bank_conflicts(entry, dtype); }));
    }
    return trials;
}

}  // namespace ladder::mutants
