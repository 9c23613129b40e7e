#pragma once

namespace simt {

/// How many threads a block of `kernel` may have by its `__launch_bounds__`; 0 if it has none, or if the compiler
/// could not keep them (see SIMT_KEEPS_LAUNCH_BOUNDS).
unsigned launch_bound_of(const void* kernel);

}  // namespace simt
