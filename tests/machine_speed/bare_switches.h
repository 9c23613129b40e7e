#pragma once

namespace ladder {

/// Lets `threads` stacks take turns, `times` each: nothing but the switches that any machine needs which runs one
/// thread of a block at a time.
void run_bare_switches(int threads, int times);

}  // namespace ladder
