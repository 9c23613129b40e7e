#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/attention/options.h"
#include "common/distributed/group.h"
#include "common/torch/torch.h"

namespace ladder {

/// How ./ladder ring wants attention over a cut sequence to be called.
struct RingCall {
    AttentionOptions attention = {};
    bool zigzag = false;  ///< parts, instead of contiguous ones
    bool overlap = true;  ///< of travelling and computing
};

/// Sizes of the whole problem.
struct RingSizes {
    std::int64_t batch = 1, query_heads = 1, kv_heads = 1, query_length = 1, key_length = 1, head_dim = 1;
    std::int64_t element_bytes = 4;
};

/// One way to share out attention over a sequence.
struct RingMethod {
    std::string name = {};
    std::string summary = {};
    std::function<AttentionResult(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const distributed::Group& group, const RingCall& call)>
        run = {};

    /// What all ranks together send in the forward pass, or in the backward pass, by formula.
    std::function<std::int64_t(const RingSizes& sizes, int ranks, bool backward)> bytes = {};

    /// Why it cannot share that out over so many ranks; empty if it can.
    std::function<std::string(const RingSizes& sizes, int ranks)> objection = {};
};

/// What a phase has to show of attention over a sequence that is cut over ranks.
struct RingDemo {
    /// First position and length of each interval that a rank holds.
    std::function<std::vector<std::pair<std::int64_t, std::int64_t>>(std::int64_t length, int rank, int ranks,
                                                                     bool zigzag)>
        held = {};
    std::function<torch::Tensor(const torch::Tensor& whole, int rank, int ranks, bool zigzag)> cut = {};
    std::function<torch::Tensor(const std::vector<torch::Tensor>& parts, bool zigzag)> rejoin = {};

    /// Pairs of a query and a key that a rank works on at a step of the ring.
    std::function<std::int64_t(const RingSizes& sizes, const RingCall& call, int rank, int step, int ranks)> pairs = {};

    std::vector<RingMethod> methods = {};
};

}  // namespace ladder
