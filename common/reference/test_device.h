#pragma once

#include <torch/types.h>

namespace ladder::reference {

/// Where the tests of this binary run: what `--device=cpu|cuda` asked for, the CPU by default.
///
/// Defined in test_main.cpp, the `main` of every test binary.
torch::Device test_device();

}  // namespace ladder::reference
