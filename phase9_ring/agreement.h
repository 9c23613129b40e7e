#pragma once

#include <cstdint>

#include "common/distributed/group.h"
#include "phase9_ring/ring.h"

namespace ladder {

/// A call of a group, as every rank knows it once all have told what they hold.
struct Agreement {
    std::int64_t query_length = 0;  ///< Sq, of the whole sequence
    std::int64_t key_length = 0;    ///< Sk
};

/// Checks this rank's tensors and tells the others of them. Throws std::invalid_argument where they are no attention
/// problem (the others then get a RankError that says so), and distributed::RankError, on every rank and with the same
/// words, where one makes another call, or holds a part of another length than cut_sequence() gives it.
Agreement agree(const char* call, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                const distributed::Group& group, const RingOptions& options);

}  // namespace ladder
