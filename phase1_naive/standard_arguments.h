#pragma once

#include "common/attention/arguments.h"

namespace ladder {

/// One attention problem and the two N^2 matrices that standard attention leaves in global memory on its way.
struct StandardArguments : AttentionArguments {
    simt::TensorArgument s;  ///< [B, Hq, Sq, Sk], scaled scores, dtype of q
    simt::TensorArgument p;  ///< [B, Hq, Sq, Sk], probabilities, dtype of q
};

}  // namespace ladder
