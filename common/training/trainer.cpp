#include "common/training/trainer.h"

#include <stdexcept>
#include <utility>

namespace ladder::training {
namespace {

constexpr std::uint64_t kHeldOutSeed = 1;  // of where pieces of held-out text begin: the same in every run

torch::ScalarType compute_type(const Plan& plan) { return plan.half ? at::kBFloat16 : at::kFloat; }

}  // namespace

Trainer::Trainer(const Plan& plan, const Corpus& corpus, torch::Device device, Attention attention)
    : corpus_(corpus),
      state_{.plan = plan, .step = 0, .losses = {}, .held_out = {}, .weights = {}, .mean = {}, .square = {}},
      model_(plan.sizes, plan.seed, device, compute_type(plan), std::move(attention)),
      optimizer_(model_) {}

Trainer::Trainer(const Checkpoint& checkpoint, const Corpus& corpus, torch::Device device, Attention attention)
    : Trainer(checkpoint.plan, corpus, device, std::move(attention)) {
    const at::NoGradGuard no_gradients;
    for (const auto& [here, kept] :
         {std::pair{model_.weights(), checkpoint.weights}, std::pair{optimizer_.mean(), checkpoint.mean},
          std::pair{optimizer_.square(), checkpoint.square}}) {
        if (here.numel() != kept.numel())
            throw std::runtime_error("training: the checkpoint has " + std::to_string(kept.numel()) +
                                     " weights, and a model of its sizes " + std::to_string(here.numel()));
        here.copy_(kept);
    }
    state_.step = checkpoint.step;
    state_.losses = checkpoint.losses;
    state_.held_out = checkpoint.held_out;
}

double Trainer::step() {
    const Plan& plan = state_.plan;
    const torch::Tensor text = batch_of(corpus_.training, plan.batch, plan.sizes.context, plan.seed, state_.step);
    model_.gradients().zero_();
    const torch::Tensor loss = model_.loss(text.to(model_.device()));
    loss.backward();
    optimizer_.move(rate_at(state_.step, plan.steps, plan.rate), state_.step);
    ++state_.step;
    state_.losses.push_back(loss.item<double>());
    return state_.losses.back();
}

double Trainer::held_out_loss(std::int64_t batches) const {
    const at::NoGradGuard no_gradients;
    const Plan& plan = state_.plan;
    double sum = 0;
    for (std::int64_t i = 0; i < batches; ++i) {
        const torch::Tensor text = batch_of(corpus_.held_out, plan.batch, plan.sizes.context, kHeldOutSeed, i);
        sum += model_.loss(text.to(model_.device())).item<double>();
    }
    return sum / double(batches);
}

double Trainer::note_held_out_loss(std::int64_t batches) {
    state_.held_out.push_back({state_.step, held_out_loss(batches)});
    return state_.held_out.back().loss;
}

Checkpoint Trainer::checkpoint() const {
    Checkpoint result = state_;
    result.weights = model_.weights().cpu().clone();
    result.mean = optimizer_.mean().cpu().clone();
    result.square = optimizer_.square().cpu().clone();
    return result;
}

}  // namespace ladder::training
