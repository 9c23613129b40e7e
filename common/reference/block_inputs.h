#pragma once

#include <cstdint>

#include "common/reference/inputs.h"

namespace ladder::reference {

/// What is hard for numbers that are kept in few bits with a scale for each block of rows: blocks of different sizes,
/// and blocks with a few numbers that are much larger than the rest.
struct BlockSizes {
    std::int64_t key_growth = 0;    ///< each block of keys is 2^this times as large as the one before
    std::int64_t value_growth = 0;  ///< the same of values
    bool outliers = false;          ///< one number in a thousand is ten times as large (FlashAttention-3, section 4.3)

    /// Equal in each respect.
    friend bool operator==(const BlockSizes&, const BlockSizes&) = default;
};

/// make_inputs(), with blocks of `rows` keys and values that have these sizes. The same case gives the same numbers on
/// every device.
AttentionInputs make_block_inputs(const AttentionCase& problem, const BlockSizes& sizes, std::int64_t rows,
                                  torch::Device device);

}  // namespace ladder::reference
