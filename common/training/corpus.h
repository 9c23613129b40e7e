#pragma once

#include <cstdint>
#include <filesystem>

#include "common/torch/torch.h"

namespace ladder::training {

/// What the model learns to write: this repository's chapters, pages and sources, as bytes.
///
/// A token is a byte. Word pieces would make the text a fourth as long, but they would have to be learned, kept beside
/// the weights, and explained; bytes need no table, and spell τ, × and whatever else somebody asks for.
struct Corpus {
    torch::Tensor training;  ///< [N] uint8, on the CPU: every file but those held out, one after another
    torch::Tensor held_out;  ///< [M] uint8: one file in ten, of which the model sees nothing
    std::int64_t files = 0;  ///< in both
};

/// So many values has a token.
inline constexpr std::int64_t kVocabulary = 256;

/// Reads what is below `root`: pages (.md), kernels and other C++ (.cuh, .h, .cpp) and Python (.py) of the phases, of
/// common/ and of docs/, in the order of their paths. Which files are held out depends on their paths alone. Throws
/// std::runtime_error where there are too few for both parts.
Corpus read_corpus(const std::filesystem::path& root);

/// `count` pieces of `length` + 1 bytes, [count, length + 1] int64: what is read, and what comes next. Where they begin
/// depends on the seed and the step alone. Throws std::invalid_argument for a text that is shorter.
torch::Tensor batch_of(const torch::Tensor& text, std::int64_t count, std::int64_t length, std::uint64_t seed,
                       std::int64_t step);

}  // namespace ladder::training
