#pragma once

#include <string_view>

#include "common/torch/torch.h"

namespace ladder::reference {

/// Where the tests of this binary run: what `--device=cpu|cuda` asked for, the CPU by default.
///
/// Defined in test_main.cpp, the `main` of every test binary.
torch::Device test_device();

/// For a test that only the CPU machine can run: `if (not_run_on_gpu("nothing counts there")) return;`. On a GPU it is
/// true, and the test is listed at the end as not run, by name, with the reason.
bool not_run_on_gpu(std::string_view why);

/// The same for a test that lacks something else: true where `missing` says what; empty where nothing is missing.
bool not_run_for_want_of(std::string_view missing);

/// The same for a test of what kernels move, which only the checked CPU machine counts: true on a GPU, and in a build
/// without checks.
bool not_run_without_counters();

}  // namespace ladder::reference
