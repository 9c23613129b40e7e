#pragma once

#include "common/simt/sync/atomic_access.h"

namespace simt {
inline namespace cpu {

// What a trace shows of flags: elements of global memory by which blocks hand over to one another, with a release here
// and an acquire there. A flag is a barrier that nobody makes. Each release ends a phase of it; who finds what another
// block has released has waited for that phase.
//
// Traced blocks run one after the other, so a block finds at once what those before it have released. Their clocks
// tell how long it would have waited if all had begun together.

class Block;

/// The running thread of `block`, which is traced, has made an atomic access to global memory, and has found an element
/// that `found.owner` released last; `released`: it has released it anew. Heard where the block has parties.
void trace_flag(Block& block, const AtomicPlace& place, const AtomicUse& use, const AtomicBoard::Post& found,
                bool released);

}  // namespace cpu
}  // namespace simt
