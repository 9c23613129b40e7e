#pragma once

#include <cstdint>
#include <vector>

#include "common/torch/torch.h"

namespace ladder {

/// How a sequence is cut over R ranks.
enum class Parts {
    contiguous,  ///< into R intervals: rank r holds interval r
    zigzag,      ///< into 2 R intervals: rank r holds r and 2 R - 1 - r, one from each end
};

/// Consecutive positions of a sequence.
struct Interval {
    std::int64_t first = 0;   ///< position of the first
    std::int64_t length = 0;  ///< how many; may be 0
};

/// The positions of a sequence of `length` that `rank` of `ranks` holds, as intervals that rise. Intervals of one
/// sequence differ in length by one at most, so any length can be cut; some ranks may hold nothing.
std::vector<Interval> part_of(Parts parts, std::int64_t length, int rank, int ranks);

/// How many positions that are.
std::int64_t length_of(const std::vector<Interval>& part);

/// The part of `whole` that `rank` holds, cut along `dimension`: contiguous, and memory of its own.
torch::Tensor cut_sequence(const torch::Tensor& whole, std::int64_t dimension, Parts parts, int rank, int ranks);

/// The whole again, from the parts of ranks 0, 1, …. Throws std::invalid_argument where their lengths are not those of
/// a sequence cut so.
torch::Tensor rejoin_sequence(const std::vector<torch::Tensor>& cut_up, std::int64_t dimension, Parts parts);

}  // namespace ladder
