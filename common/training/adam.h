#pragma once

#include <cstdint>

#include "common/torch/torch.h"
#include "common/training/model.h"

namespace ladder::training {

/// AdamW (Loshchilov and Hutter 2019): steps of a size that the past gradients of each weight decide, and matrices that
/// shrink a little with each. All weights are one tensor, so that a step is a handful of operations.
class AdamW {
  public:
    /// For the weights of `model`, which must live as long. Both moments are 0.
    explicit AdamW(const Gpt& model);

    /// Moves the weights against their gradients, whose norm is cut to 1 before, and counts as the `step`-th, from 0.
    void move(double rate, std::int64_t step);

    /// Mean and mean square of past gradients, [N] float32: what a checkpoint keeps.
    const torch::Tensor& mean() const { return mean_; }
    const torch::Tensor& square() const { return square_; }

  private:
    const Gpt& model_;
    torch::Tensor mean_, square_;
};

/// The size of step number `step` of `steps`: it grows for a while, then falls along a cosine to a tenth of `highest`.
double rate_at(std::int64_t step, std::int64_t steps, double highest);

}  // namespace ladder::training
