#pragma once

#include "common/attention/arguments.h"
#include "phase2_fa1/fa1_tiles.h"

namespace ladder {

/// An attention problem, and what this algorithm needs besides: where O, l and m wait between two outer steps.
struct Fa1Arguments : AttentionArguments {
    simt::TensorArgument running_out;  ///< [B, Hq, Sq, D], float32: for float32 problems the same memory as `out`
    simt::TensorArgument l;            ///< [B, Hq, Sq], float32
    simt::TensorArgument m;            ///< [B, Hq, Sq], float32
    Fa1Tiles tiles{};                  ///< B_r and B_c
};

}  // namespace ladder
