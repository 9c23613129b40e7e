#pragma once

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

inline constexpr float kLog2E = 1.4426950408889634f;  ///< e^x = 2^(x log2 e)
inline constexpr float kLn2 = 0.6931471805599453f;    ///< ln x = ln 2 log2 x

}  // namespace ladder::SIMT_MACHINE
