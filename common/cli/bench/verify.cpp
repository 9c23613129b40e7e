#include "common/cli/bench/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "common/reference/comparison.h"
#include "common/reference/error_bound.h"
#include "common/reference/low_precision.h"
#include "common/reference/oracle.h"

namespace ladder::cli::bench {
namespace {

double work_of(const Problem& p) {
    return double(p.batch * p.query_heads) * double(p.queries) * double(p.keys) * double(p.head_dim);
}

double magnitude_of(const torch::Tensor& x) { return x.abs().max().item<double>(); }

/// The first, one in the middle and the last of `count`, each once.
std::set<std::int64_t> three_of(std::int64_t count) { return {0, count / 2, count - 1}; }

/// Where windows of kWindowRows start.
std::set<std::int64_t> three_starts(std::int64_t rows) {
    const std::int64_t last = std::max<std::int64_t>(0, rows - Expected::kWindowRows);
    return {0, last / 2, last};
}

void fold(Verdict& all, const reference::Comparison& one) {
    const bool worse =
        one.max_abs_error * all.bound > all.max_abs_error * one.bound || !std::isfinite(one.max_abs_error);
    if (all.text.empty() || (all.right && (!one.passed || worse)))
        all = {.right = one.passed, .max_abs_error = one.max_abs_error, .bound = one.bound, .text = one.report};
}

}  // namespace

Tensors make_inputs(const Problem& p, torch::Device device, std::uint64_t seed) {
    at::manual_seed(seed);
    const auto random = [&](std::vector<std::int64_t> sizes) {
        return at::randn(sizes, at::TensorOptions().device(device).dtype(torch::kFloat32)).to(p.dtype);
    };
    if (p.work == Work::softmax) return {random({p.queries, p.keys})};
    Tensors inputs = {random({p.batch, p.query_heads, p.queries, p.head_dim}),
                      random({p.batch, p.kv_heads, p.keys, p.head_dim}),
                      random({p.batch, p.kv_heads, p.keys, p.head_dim})};
    if (p.work == Work::backward) {
        const AttentionResult exact = reference::attention_oracle(inputs[0], inputs[1], inputs[2], p.options());
        inputs.push_back(random({p.batch, p.query_heads, p.queries, p.head_dim}));
        inputs.push_back(exact.out.to(p.dtype));
        inputs.push_back(exact.lse.to(torch::kFloat32));
    }
    return inputs;
}

Expected::Expected(const Problem& problem, const Tensors& inputs, double largest_whole)
    : problem_(problem), whole_(work_of(problem) <= largest_whole) {
    const at::NoGradGuard no_gradients;
    if (problem.work == Work::backward) {
        work_out_gradients(inputs);
        return;
    }
    for (const Window& window : windows()) parts_.push_back(work_out(window, inputs));
    description_ =
        whole_ ? "all of it against the float64 oracle"
               : fmt::format("{} windows (first, middle and last rows{}) against the float64 oracle; all of it finite",
                             parts_.size(),
                             problem.work == Work::softmax ? "" : " of the first, a middle and the last head");
}

void Expected::work_out_gradients(const Tensors& inputs) {
    const Problem& p = problem_;
    const std::int64_t group = p.query_heads / p.kv_heads;
    const auto add = [&](std::int64_t batch, std::int64_t batches, std::int64_t kv_head, std::int64_t kv_heads) {
        const auto of = [&](std::size_t input, std::int64_t heads_each) {
            return inputs[input].narrow(0, batch, batches).narrow(1, kv_head * heads_each, kv_heads * heads_each);
        };
        gradients_.push_back(
            {batch, batches, kv_head, kv_heads,
             reference::ExpectedGradients(of(0, group), of(1, 1), of(2, 1), {.out = of(4, group), .lse = of(5, group)},
                                          of(3, group), p.options())});
    };
    if (whole_) {
        add(0, p.batch, 0, p.kv_heads);
        description_ = "all of it against the float64 oracle";
        return;
    }
    for (const std::int64_t n : three_of(p.batch * p.kv_heads)) add(n / p.kv_heads, 1, n % p.kv_heads, 1);
    description_ =
        fmt::format("{} windows (the first, a middle and the last head) against the float64 oracle; all of it finite",
                    gradients_.size());
}

Verdict Expected::judge_gradients(const Tensors& outputs) const {
    const std::int64_t group = problem_.query_heads / problem_.kv_heads;
    Verdict verdict;
    for (const HeadsOfGradients& one : gradients_) {
        const auto of = [&](std::size_t output, std::int64_t heads_each) {
            return outputs[output]
                .narrow(0, one.batch, one.batches)
                .narrow(1, one.kv_head * heads_each, one.kv_heads * heads_each);
        };
        fold(verdict, one.gradients.compare({.dq = of(0, group), .dk = of(1, 1), .dv = of(2, 1)}));
    }
    return verdict;
}

std::vector<Expected::Window> Expected::windows() const {
    const Problem& p = problem_;
    if (whole_) return {{0, p.batch, 0, p.query_heads, 0, p.queries}};
    std::set<std::pair<std::int64_t, std::int64_t>> heads;
    for (const std::int64_t n : three_of(p.batch * p.query_heads)) heads.emplace(n / p.query_heads, n % p.query_heads);
    std::vector<Window> windows;
    for (const auto& [batch, head] : heads)
        for (const std::int64_t row : three_starts(p.queries))
            windows.push_back({batch, 1, head, 1, row, std::min(kWindowRows, p.queries - row)});
    return windows;
}

Expected::Part Expected::work_out(const Window& w, const Tensors& inputs) const {
    Part part{.window = w};
    if (problem_.work == Work::softmax) {
        const torch::Tensor x = inputs[0].narrow(0, w.row, w.rows);
        part.out = reference::softmax_oracle(x);
        if (problem_.dtype == torch::kFloat32) {
            part.bound_out = reference::softmax_bound(x);
            return part;
        }
        part.fair_out = reference::softmax_low_precision(x);
        part.magnitude = magnitude_of(part.out);
        return part;
    }
    const std::int64_t group = problem_.query_heads / problem_.kv_heads;
    const torch::Tensor q = inputs[0].narrow(0, w.batch, w.batches).narrow(1, w.head, w.heads).narrow(2, w.row, w.rows);
    // Aligned bottom-right, rows up to some row see what they would see if the keys ended where that row's sight does.
    TORCH_CHECK(whole_ || problem_.mask != Mask::causal_top_left, "windows of a top-left mask are not worked out");
    const bool causal = problem_.mask == Mask::causal_bottom_right;
    const std::int64_t keys = causal ? w.row + w.rows + problem_.keys - problem_.queries : problem_.keys;
    const auto of_window = [&](const torch::Tensor& t) {
        const torch::Tensor sequences = t.narrow(0, w.batch, w.batches).narrow(2, 0, keys);
        return whole_ ? sequences : sequences.narrow(1, w.head / group, 1);
    };
    const torch::Tensor k = of_window(inputs[1]), v = of_window(inputs[2]);
    const AttentionOptions options{.scale = {}, .mask = problem_.mask};
    const AttentionResult oracle = reference::attention_oracle(q, k, v, options);
    part.out = oracle.out;
    part.lse = oracle.lse;
    if (problem_.dtype == torch::kFloat32) {
        const reference::ErrorBound bound = reference::attention_bound(q, k, v, options);
        part.bound_out = bound.out;
        part.bound_lse = bound.lse;
        return part;
    }
    const AttentionResult fair = reference::attention_low_precision(q, k, v, options);
    part.fair_out = fair.out;
    part.fair_lse = fair.lse;
    part.magnitude = magnitude_of(v);
    part.lse_magnitude = std::max(1.0, magnitude_of(oracle.lse));
    return part;
}

Verdict Expected::judge(const Tensors& outputs) const {
    Verdict verdict = problem_.work == Work::backward ? judge_gradients(outputs) : Verdict();
    for (const Part& part : parts_) {
        const Window& w = part.window;
        const auto of_window = [&](const torch::Tensor& t) {
            if (problem_.work == Work::softmax) return t.narrow(0, w.row, w.rows);
            return t.narrow(0, w.batch, w.batches).narrow(1, w.head, w.heads).narrow(2, w.row, w.rows);
        };
        const bool has_lse = outputs.size() > 1 && part.lse.defined();
        if (problem_.dtype == torch::kFloat32) {
            fold(verdict, reference::compare_within(of_window(outputs[0]), part.out, part.bound_out));
            if (has_lse)
                fold(verdict, reference::compare_within(of_window(outputs[1]), part.lse, part.bound_lse, "lse"));
            continue;
        }
        fold(verdict, reference::compare(of_window(outputs[0]), part.out, part.fair_out, part.magnitude));
        if (has_lse)
            fold(verdict,
                 reference::compare(of_window(outputs[1]), part.lse, part.fair_lse, part.lse_magnitude, "lse"));
    }
    const std::size_t checked = problem_.work == Work::backward ? 3 : 1;
    for (std::size_t n = 0; !whole_ && verdict.right && n < checked; ++n)
        if (!std::isfinite(outputs[n].sum(torch::kFloat64).item<double>()))
            verdict = {.right = false,
                       .max_abs_error = std::numeric_limits<double>::infinity(),
                       .bound = verdict.bound,
                       .text = "outside the windows that were worked out, something is NaN or infinite"};
    return verdict;
}

}  // namespace ladder::cli::bench
