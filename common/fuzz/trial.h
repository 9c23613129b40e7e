#pragma once

#include <string>

#include "common/fuzz/entry.h"
#include "common/torch/torch.h"

namespace ladder::fuzz {

/// How a call ended.
enum class Verdict {
    passed,
    refused,  ///< as documented: not enough shared memory, or a bad call
    failed,
};

/// The verdict on one call, and what there is to say of it.
struct Outcome {
    Verdict verdict = Verdict::passed;
    std::string kind = {};        ///< of a failure, in a few words: what has to stay the same while it is shrunk
    std::string report = {};      ///< of a failure, all there is to say
    double share_of_bound = 0.0;  ///< max |error| of `out` over what it was allowed
};

/// The tensors of a problem, non-finite elements and NaN beyond sequence lengths included.
Operands make_operands(const Entry& entry, const Problem& problem, torch::Device device);

/// Calls the entry on the problem, with outputs poisoned, and holds what it does against its contract:
///
///   - the result is the reference's, by the rule for its dtype (reference/comparison.h);
///   - inputs are not written to; on the CPU machine, no fault is diagnosed; nothing is thrown;
///   - a call is refused only if it asks for more shared memory than the device has. On the CPU machine the refusal is
///     taken at its word: on a device with exactly the bytes that it asked for, the same problem must run and be right;
///   - the property that the problem names, if any, holds;
///   - a bad call is refused, with the words that the table asks for, before anything is launched.
///
/// Changes the CPU machine's device and workers for the time of the call.
Outcome try_problem(const Entry& entry, const Problem& problem, torch::Device device);

}  // namespace ladder::fuzz
