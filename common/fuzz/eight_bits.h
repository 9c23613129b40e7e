#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/fuzz/random.h"
#include "common/reference/block_inputs.h"

namespace ladder::fuzz {

/// What an entry of Form::eight_bits is asked for besides attention: how 16-bit tensors become codes, each block of
/// rows with a scale of its own, and the sizes of those blocks.
struct EightBits {
    bool rotated = true;                           ///< Q and K are multiplied by an orthogonal matrix
    bool values_in_e5m2 = false;                   ///< V and the weights; otherwise in e4m3, as Q and K
    std::optional<std::int64_t> first_query = {};  ///< its position, for a rotary embedding; without one when absent
    reference::BlockSizes sizes = {};

    friend bool operator==(const EightBits&, const EightBits&) = default;
};

/// Rows of keys, and of values, that share a scale.
inline constexpr std::int64_t kScaledRows = 128;

/// All of it, for this case: sizes that float16 can hold, and a rotary embedding for pairs of columns alone.
EightBits draw_eight_bits(Random& random, const reference::AttentionCase& problem);

/// Everything that differs from the plainest, each with a comma before it: ", not rotated, values in e5m2".
std::string describe(const EightBits& eight_bits);

/// Each with one thing less.
std::vector<EightBits> with_one_thing_less(const EightBits& eight_bits);

}  // namespace ladder::fuzz
