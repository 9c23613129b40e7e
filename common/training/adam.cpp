#include "common/training/adam.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ladder::training {
namespace {

constexpr double kKeepMean = 0.9, kKeepSquare = 0.95;  // of what was before, in each step
constexpr double kSmall = 1e-8;                        // so that nobody divides by 0
constexpr double kShrink = 0.1;                        // of matrices, times the rate
constexpr double kLongestGradient = 1.0;

}  // namespace

AdamW::AdamW(const Gpt& model)
    : model_(model), mean_(at::zeros_like(model.weights())), square_(at::zeros_like(model.weights())) {}

void AdamW::move(double rate, std::int64_t step) {
    const at::NoGradGuard no_gradients;
    const torch::Tensor gradient = model_.gradients();
    // On the device throughout: to ask for the norm would wait for all that is under way.
    const torch::Tensor cut = (kLongestGradient / (gradient.norm() + kSmall)).clamp_max(1.0);
    gradient.mul_(cut);
    mean_.mul_(kKeepMean).add_(gradient, 1 - kKeepMean);
    square_.mul_(kKeepSquare).addcmul_(gradient, gradient, 1 - kKeepSquare);
    // Both began at 0, which counts for less with every step.
    const double mean_so_far = 1 - std::pow(kKeepMean, double(step + 1));
    const double square_so_far = 1 - std::pow(kKeepSquare, double(step + 1));
    const torch::Tensor size = (square_ / square_so_far).sqrt_().add_(kSmall);
    const torch::Tensor weights = model_.weights();
    weights.narrow(0, 0, model_.matrix_elements()).mul_(1 - rate * kShrink);
    weights.addcdiv_(mean_, size, -rate / mean_so_far);
}

double rate_at(std::int64_t step, std::int64_t steps, double highest) {
    const auto warm = double(std::min<std::int64_t>(100, steps / 10 + 1));
    if (double(step) < warm) return highest * double(step + 1) / warm;
    const double way = (double(step) - warm) / std::max(1.0, double(steps) - warm);
    return highest * (0.1 + 0.45 * (1 + std::cos(std::numbers::pi * std::min(way, 1.0))));
}

}  // namespace ladder::training
