#pragma once

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

// exp(x) = 2^(log2(e) x), and ln(x) = ln(2) log2(x).
inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

}  // namespace ladder::SIMT_MACHINE
