#pragma once

#include <vector>

#include "common/fuzz/entry.h"

namespace ladder::cli {

/// Every public entry of every phase, as the fuzzer calls it. The order is part of what a seed means.
std::vector<fuzz::Entry> fuzz_entries();

}  // namespace ladder::cli
