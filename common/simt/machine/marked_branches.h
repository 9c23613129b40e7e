#pragma once

// From here on each `if` tells the counters that a lane has come by, in whichever direction it goes on. So the turns of
// a loop leave a trace also where a lane takes no part in them: see LaneStreams. For kernels only, and after all
// headers of the machine. `if constexpr` stays as it is.

#include "common/simt/counters/mark_listeners.h"

namespace simt {
inline namespace cpu {

/// Tells the block that this worker runs, if it runs one.
[[gnu::cold, gnu::noinline]] void note_mark(const char* file, unsigned line);

/// Always false. Where nobody listens it costs a comparison.
[[gnu::always_inline]] constexpr bool passes_by(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    if (!__builtin_is_constant_evaluated() && mark_listeners != 0) [[unlikely]]
        note_mark(file, line);
    return false;
}

}  // namespace cpu
}  // namespace simt

#pragma GCC diagnostic ignored "-Wdangling-else"  // every marked `if` has an `else`; other builds warn

// clang-format off
#define if(...) if (::simt::cpu::passes_by()) {} else if (__VA_ARGS__)
// clang-format on
