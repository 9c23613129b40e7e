#pragma once

#include "common/attention/arguments.h"
#include "phase1_naive/shared_need.h"

namespace ladder {

/// One attention problem and the number of query rows that a block of scheme A or B owns.
struct BlockedArguments : AttentionArguments {
    int block_rows = 64;  ///< B_r

    /// What decides the shared memory of a block.
    BlockedShape shape(Scheme scheme) const {
        return {.scheme = scheme, .type = q.type, .head_dim = head_dim(), .block_rows = block_rows};
    }
};

}  // namespace ladder
