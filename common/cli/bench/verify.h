#pragma once

#include <string>
#include <vector>

#include "common/cli/bench/problem.h"
#include "common/reference/gradient_comparison.h"
#include "common/torch/torch.h"

namespace ladder::cli::bench {

/// Random inputs of a problem, standard normal: {q, k, v}, or {x} for a softmax; for a backward pass dout besides, and
/// out and lse, which the oracle makes of the others. The same seed gives the same numbers
/// on the same kind of device.
Tensors make_inputs(const Problem& problem, torch::Device device, std::uint64_t seed);

using ladder::bench::Verdict;

/// What a problem's result has to be, by the float64 oracle and the harness's one rule.
///
/// Of a problem with more than `largest_whole` multiply-adds in one of its products (elements of a softmax), too many
/// to be worked out in float64 as a whole, some windows are: the first rows, rows in the middle and the last ones, of
/// the first head, one in the middle and the last one. The rest must be finite. Of a backward pass, whose dk and dv are
/// sums over all queries, the windows are whole key-value heads with the query heads that read them.
class Expected {
  public:
    static constexpr double kLargestWhole = 1 << 28;
    static constexpr std::int64_t kWindowRows = 64;

    Expected(const Problem& problem, const Tensors& inputs, double largest_whole = kLargestWhole);

    /// Holds `outputs` against it: the result and, where there is a second tensor, the log-sum-exp; of a backward pass
    /// {dq, dk, dv}.
    Verdict judge(const Tensors& outputs) const;

    /// What is checked against what, in a sentence.
    std::string description() const { return description_; }

  private:
    /// A block of heads and rows. Softmax has rows only.
    struct Window {
        std::int64_t batch, batches, head, heads, row, rows;
    };
    struct Part {
        Window window = {};
        torch::Tensor out = {}, lse = {};              ///< by the oracle
        torch::Tensor bound_out = {}, bound_lse = {};  ///< in float32: how far a result may lie from that
        torch::Tensor fair_out = {}, fair_lse = {};    ///< in 16 bits: by plain torch in the problem's dtype
        double magnitude = 0, lse_magnitude = 0;
    };

    /// Some key-value heads of a backward pass, of one sequence or of all.
    struct HeadsOfGradients {
        std::int64_t batch, batches, kv_head, kv_heads;
        reference::ExpectedGradients gradients;
    };

    void work_out_gradients(const Tensors& inputs);
    Verdict judge_gradients(const Tensors& outputs) const;
    std::vector<Window> windows() const;
    Part work_out(const Window& window, const Tensors& inputs) const;

    Problem problem_;
    bool whole_;
    std::vector<Part> parts_;
    std::vector<HeadsOfGradients> gradients_;  ///< of a backward pass, which has no parts
    std::string description_;
};

}  // namespace ladder::cli::bench
