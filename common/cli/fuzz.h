#pragma once

#include <string>
#include <vector>

#include "common/fuzz/entry.h"
#include "common/fuzz/run.h"

namespace ladder::cli {

/// Every public entry of every phase, as the fuzzer calls it. The order is part of what a seed means.
std::vector<fuzz::Entry> fuzz_entries();

/// Runs random problems with a live line of what is going on, then prints each failure with a test of it, and a table.
fuzz::Result run_fuzz(const fuzz::Request& request);

/// Everything that run_fuzz found, as JSON. Throws std::runtime_error if the file cannot be written.
void write_json(const fuzz::Request& request, const fuzz::Result& result, const std::string& file);

/// Text for messages: what to type to run one problem again.
std::string rerun_command(const fuzz::Request& request, std::uint64_t number);

}  // namespace ladder::cli
