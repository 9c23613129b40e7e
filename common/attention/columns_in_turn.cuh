#pragma once

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// How many columns of a dot product are added up in turn, before their sum is added to those of the columns before.
///
/// Every addition rounds to a digit of the sum so far, so one sum over 256 columns is a little less exact than
/// PyTorch's, which takes many short ones. An error in a score enters an exponent.
inline constexpr int kColumnsInTurn = 16;

}  // namespace ladder::SIMT_MACHINE
