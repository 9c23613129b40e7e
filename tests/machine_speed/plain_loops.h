#pragma once

#include "common/attention/arguments.h"
#include "phase0_softmax/softmax_arguments.h"

/// What the kernels compute, as anyone would write it for one processor: nested loops and no machine. The same tiles,
/// the same online softmax, sums in float; dense tensors only.
namespace ladder::plain {

/// Phase 3's attention: tiles of 64 queries and 32 keys, as the kernel has them for head dimension 64.
void attention(const AttentionArguments&);

/// Phase 5's first kernel with one split: for each query head its keys, 32 at a time.
void decode(const AttentionArguments&);

/// Phase 0's online softmax over each row.
void softmax(const SoftmaxArguments&);

}  // namespace ladder::plain
