#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/attention/arguments.h"
#include "common/reference/comparison.h"
#include "common/torch/torch.h"

namespace ladder {

/// What the rungs run on: tensors of one dtype, on one device.
struct RungInput {
    torch::Tensor q, k, v;            ///< [B, Hq, Sq, D], [B, Hkv, Sk, D]
    torch::Tensor newest;             ///< [B, Hq, few, D]: the queries of the kernels that are made for few of them
    torch::Tensor scores;             ///< [B Hq Sq, Sk]: the rows that softmax meets inside attention
    std::optional<bool> causal = {};  ///< with a bottom-right causal mask, or without; see CausalMask if absent
    std::optional<std::int64_t> splits = {};  ///< of the keys, see Phase::splits_keys; planned by the entry if absent
    std::string description = {};
};

/// How an algorithm's traffic grows, as its paper or its chapter has it: bytes ~ length^with_length, and where the
/// tiles follow the shared memory, bytes ~ shared memory^with_shared_memory.
struct Growth {
    std::string law;     ///< "Θ(N² d² / M)"
    std::string source;  ///< where that is shown
    double with_length = 0;
    std::optional<double> with_shared_memory = {};
};

/// How often an algorithm reads a tensor in full, and why.
struct Repetition {
    std::string tensor;
    std::optional<double> times = {};  ///< absent: the reason holds however often it is
    std::string why;                   ///< "once in each of 3 passes"
};

/// One kernel's turn in the tour, made ready for one input.
struct Rung {
    int phase = 0;             ///< set by rungs_of
    std::string kernel = {};   ///< the entry's name
    std::string changes = {};  ///< what is new on this rung, in a sentence or two
    std::vector<std::pair<std::string, torch::Tensor>> inputs = {};
    std::function<std::vector<torch::Tensor>()> run = {};
    std::function<reference::Comparison(const std::vector<torch::Tensor>&)> check = {};
    bool causal = false;        ///< it runs with a causal mask
    bool tensor_cores = false;  ///< they compute its products
    GlobalBytes bytes = {};     ///< what it moves, by formula
    double flops = 0;  ///< floating-point operations of the algorithm; a multiplication and an addition count as two
    Growth growth = {};
    /// Sizes of the tensors that its kernels name.
    std::map<std::string, std::uint64_t> tensor_bytes = {};
    std::vector<Repetition> repetitions = {};
    /// Sizes of tiles that follow the device and the problem: {"B_c", 40}.
    std::map<std::string, std::int64_t> tiles = {};
};

}  // namespace ladder
