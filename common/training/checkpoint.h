#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/torch/torch.h"
#include "common/training/model.h"

namespace ladder::training {

/// What a run was asked for: with the text, all that decides what comes out.
struct Plan {
    ModelSizes sizes = {};
    std::int64_t steps = 0;  ///< of the whole run
    std::int64_t batch = 0;  ///< pieces of text in a step, each as long as the context
    double rate = 0;         ///< the highest, see rate_at()
    std::uint64_t seed = 0;  ///< of the weights, and of where pieces of text begin
    bool half = false;       ///< products in bfloat16

    /// Whether the same comes out.
    friend bool operator==(const Plan&, const Plan&) = default;
};

/// A loss, and after how many steps it was measured.
struct Measured {
    std::int64_t step = 0;
    double loss = 0;
};

/// All that a run must know to go on as if it had never stopped: weights, both moments of the optimizer, and how many
/// steps were made. Whatever is drawn, weights at the start and places in the text, follows from the seed and the
/// number of the step, so that there is no generator whose state must be kept.
struct Checkpoint {
    Plan plan;
    std::int64_t step = 0;                ///< steps made
    std::vector<double> losses;           ///< of each
    std::vector<Measured> held_out;       ///< on text that the model does not learn from
    torch::Tensor weights, mean, square;  ///< [N] float32, on the CPU
};

/// Writes a checkpoint, in the format safetensors, with a sum over all bytes. At any moment, even if the machine stops,
/// there is either the old file or the new one: it is written under another name, forced to the disk and renamed.
/// Throws std::runtime_error where that fails.
void write_checkpoint(const std::filesystem::path& file, const Checkpoint& checkpoint);

/// Reads one. Throws std::runtime_error where there is none, where it is damaged, and where it is of another program.
Checkpoint read_checkpoint(const std::filesystem::path& file);

/// Writes a file as write_checkpoint() does: whole or not at all.
void write_whole(const std::filesystem::path& file, std::string_view bytes);

}  // namespace ladder::training
