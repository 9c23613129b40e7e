#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/fuzz/eight_bits.h"
#include "common/reference/inputs.h"
#include "common/simt/device/device.h"

namespace ladder::fuzz {

/// One element that is not a finite number.
struct NonFinite {
    enum class Argument { q, k, v };
    enum class Value { nan, plus_infinity, minus_infinity };

    Argument argument = Argument::q;
    std::array<std::int64_t, 4> index{};  ///< batch, head, row, column
    Value value = Value::nan;

    friend bool operator==(const NonFinite&, const NonFinite&) = default;
};

/// A promise beyond the right answer, which costs a second call.
enum class Property {
    none,
    repeats_bitwise,  ///< a second call gives the same bits; on the CPU machine, with another number of workers
    ignores_batch_neighbours,  ///< the last sequence has the same bits when it is the whole batch
    ignores_splits,            ///< with another split count, the answer still matches the reference
};

/// What an entry of Form::shared is asked for besides attention: how the sequence is cut over ranks.
struct Sharing {
    int ranks = 1;        ///< as many threads; 1 where they have nothing to talk through
    bool zigzag = false;  ///< parts, instead of contiguous ones
};

/// One call of one entry, fully determined by these fields. Those that an entry has no use for keep their defaults.
///
/// For softmax, `attention` describes the scores, x [query_length, key_length] in the layout of q: see
/// reference::make_scores.
struct Problem {
    reference::AttentionCase attention = {};
    std::optional<std::int64_t> block_rows = {};               ///< the entry's default when absent
    std::optional<std::int64_t> splits = {};                   ///< the entry's own plan when absent
    std::optional<std::vector<std::int64_t>> kv_lengths = {};  ///< [batch]; keys and values beyond are NaN
    EightBits eight_bits = {};
    Sharing sharing = {};
    std::optional<NonFinite> non_finite = {};
    Property property = Property::none;
    std::string profile = std::string(simt::kDefaultProfile);  ///< what the CPU machine imitates; a GPU is what it is
    int workers = 1;                                           ///< of the CPU machine

    /// When not empty: not this problem, but the call of that name in bad_calls(), which must be refused.
    std::string bad_call = {};
};

/// The split count of the second call for Property::ignores_splits.
std::int64_t other_splits(const Problem& problem);

/// Everything that differs from the plainest problem, in one line: "f32_b2_q33_k65_d64, splits 3, on gtx1080".
/// Problems are equal if these lines and the seeds are.
std::string describe(const Problem& problem);

bool operator==(const Problem& a, const Problem& b);

}  // namespace ladder::fuzz
