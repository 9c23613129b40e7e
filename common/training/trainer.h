#pragma once

#include <cstdint>

#include "common/torch/torch.h"
#include "common/training/adam.h"
#include "common/training/checkpoint.h"
#include "common/training/corpus.h"
#include "common/training/model.h"

namespace ladder::training {

/// A run: makes steps, one by one, and can be stopped and taken up between any two of them.
class Trainer {
  public:
    /// At the beginning. `corpus` must live as long.
    Trainer(const Plan& plan, const Corpus& corpus, torch::Device device, Attention attention);

    /// Where a checkpoint left off. Throws std::runtime_error where its weights are not those of its plan.
    Trainer(const Checkpoint& checkpoint, const Corpus& corpus, torch::Device device, Attention attention);

    Trainer(const Trainer&) = delete;
    Trainer& operator=(const Trainer&) = delete;

    /// One step: reads a batch, looks at the loss, and moves the weights. Returns the loss before.
    double step();

    /// The loss on `batches` batches of text that is held out, always the same ones.
    double held_out_loss(std::int64_t batches) const;

    /// The same, noted for the curve as of now.
    double note_held_out_loss(std::int64_t batches);

    /// All of it, on the CPU.
    Checkpoint checkpoint() const;

    /// How far it has come, and what it was made of.
    bool done() const { return state_.step >= state_.plan.steps; }
    std::int64_t steps_made() const { return state_.step; }
    std::int64_t tokens_a_step() const { return state_.plan.batch * state_.plan.sizes.context; }
    const Plan& plan() const { return state_.plan; }
    const std::vector<double>& losses() const { return state_.losses; }
    const std::vector<Measured>& held_out() const { return state_.held_out; }
    const Gpt& model() const { return model_; }

  private:
    const Corpus& corpus_;
    Checkpoint state_;  // without its tensors, which live below
    Gpt model_;
    AdamW optimizer_;
};

}  // namespace ladder::training
