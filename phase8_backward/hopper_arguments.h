#pragma once

#include "phase8_backward/backward_arguments.h"

namespace ladder {

/// A backward pass by warpgroups in plain numbers. `d` has as many columns as `lse2`, and `dq_sum` is always there.
struct HopperBackwardArguments : BackwardArguments {
    /// [B, Hq, whole tiles of queries], float32: LSE_i as a power of 2, and infinity where there is no query.
    simt::TensorArgument lse2;
    /// [B, Hq, tiles of queries], int: how many key tiles have added to dQ_sum; rank 0 where they add in no order.
    simt::TensorArgument turns;
};

}  // namespace ladder
