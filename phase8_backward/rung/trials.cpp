#include "tests/mutants/trials.h"

#include <limits>
#include <string>
#include <utility>

#include "common/reference/gradient_cases.h"
#include "common/reference/gradient_comparison.h"
#include "common/simt/report/launch_log.h"
#include "phase8_backward/backward.h"

namespace ladder::mutants {
namespace {

using reference::AttentionCase, reference::BackwardInputs, reference::Family, reference::Layout;
using ::testing::AssertionFailure, ::testing::AssertionResult, ::testing::AssertionSuccess;

AttentionGradients gradients(const BackwardInputs& x, DqGather gather, bool with_dlse = true) {
    return plain_backward(x.dout, x.q, x.k, x.v, x.out, x.lse, x.options, {.gather = gather},
                          with_dlse ? std::optional(x.dlse) : std::nullopt);
}

AssertionResult matches_oracle(const AttentionCase& problem, DqGather gather, bool with_dlse) {
    const BackwardInputs x = reference::make_backward_inputs(problem, torch::kCPU);
    const auto verdict =
        reference::compare_gradients(gradients(x, gather, with_dlse), x.q, x.k, x.v, {x.out, x.lse}, x.dout, x.options,
                                     with_dlse ? std::optional(x.dlse) : std::nullopt);
    if (verdict.passed) return AssertionSuccess();
    return AssertionFailure() << verdict.report;
}

/// A key that holds NaN reaches no query before it, and a query that does no key behind it.
AssertionResult what_is_hidden_does_no_harm(DqGather gather, torch::ScalarType dtype) {
    constexpr int64_t length = 100, at = 37;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    AttentionCase problem{.query_length = length,
                          .key_length = length,
                          .head_dim = 32,
                          .options = {.scale = {}, .mask = Mask::causal_top_left},
                          .seed = 9};
    problem.dtype = dtype;
    const BackwardInputs x = reference::make_backward_inputs(problem, torch::kCPU);
    BackwardInputs keys = x, queries = x;
    for (torch::Tensor* tensor : {&keys.k, &keys.v, &queries.q, &queries.dout}) {
        *tensor = tensor->clone();
        tensor->select(2, at).fill_(nan);
    }
    const int64_t rest = length - at - 1;
    if (gradients(keys, gather).dq.narrow(2, 0, at).isnan().any().item<bool>())
        return AssertionFailure() << "a key reached a query that does not see it";
    const AttentionGradients result = gradients(queries, gather);
    if (result.dk.narrow(2, at + 1, rest).isnan().any().item<bool>() ||
        result.dv.narrow(2, at + 1, rest).isnan().any().item<bool>())
        return AssertionFailure() << "a query reached a key that it does not see";
    return AssertionSuccess();
}

/// Nothing is read twice, and nothing that the mask spares.
AssertionResult moves_what_the_formula_says(DqGather gather, torch::ScalarType dtype) {
    AttentionCase problem{.query_heads = 2,
                          .query_length = 150,
                          .key_length = 200,
                          .head_dim = 32,
                          .options = {.scale = {}, .mask = Mask::causal_top_left}};
    problem.dtype = dtype;
    const BackwardInputs x = reference::make_backward_inputs(problem, torch::kCPU);
    const simt::LaunchLog log(simt::LaunchLog::Detail::bytes);
    gradients(x, gather);
    const auto counted = log.total();
    const GlobalBytes expected = plain_backward_bytes(x.q, x.k, x.v, x.options, {.gather = gather}, true);
    const GlobalBytes moved{.read = counted.global_bytes_read(), .written = counted.global_bytes_written()};
    if (moved == expected) return AssertionSuccess();
    return AssertionFailure() << moved.read << " bytes read and " << moved.written << " written, where "
                              << expected.read << " and " << expected.written << " would do";
}

}  // namespace

std::vector<Trial> trials(torch::ScalarType dtype) {
    std::vector<Trial> trials;
    const std::pair<std::string, DqGather> gathers[] = {{"", DqGather::second_pass}, {"atomics_", DqGather::atomics}};
    const auto add = [&](AttentionCase problem, bool with_dlse = true) {
        problem.dtype = dtype;
        problem.seed = 31;
        for (const auto& [prefix, gather] : gathers)
            trials.push_back(trial(prefix + problem.name, [problem, gather = gather, with_dlse] {
                return matches_oracle(problem, gather, with_dlse);
            }));
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
    add({.name = "rows_that_see_nothing",
         .query_heads = 2,
         .query_length = 90,
         .key_length = 20,
         .head_dim = 32,
         .options = {.scale = {}, .mask = Mask::causal_bottom_right}});
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
    for (const auto& [prefix, gather] : gathers) {
        trials.push_back(
            trial(prefix + "hidden", [gather = gather, dtype] { return what_is_hidden_does_no_harm(gather, dtype); }));
        trials.push_back(
            trial(prefix + "bytes", [gather = gather, dtype] { return moves_what_the_formula_says(gather, dtype); }));
    }
    return trials;
}

}  // namespace ladder::mutants
