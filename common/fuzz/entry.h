#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/attention/check.h"
#include "common/attention/gradients.h"
#include "common/attention/options.h"
#include "common/fuzz/problem.h"
#include "common/reference/comparison.h"
#include "common/simt/device/features.h"
#include "common/torch/torch.h"

namespace ladder::fuzz {

/// How an entry is called, and so which fields of a problem mean something to it.
enum class Form {
    softmax,     ///< entry(x)
    attention,   ///< entry(q, k, v, options)
    blocked,     ///< entry(q, k, v, options, block_rows)
    decode,      ///< entry(q, k, v, {.attention = options, .kv_lengths = …, .splits = …})
    eight_bits,  ///< entry(q, k, v, options, how), which makes 8-bit codes of the tensors, see EightBits
    shared,      ///< entry_on_threads(q, k, v, options, ranks, parts), see Sharing
    backward,    ///< entry(dout, q, k, v, out, lse, options, …, dlse), see Entry::differentiate
};

/// The tensors of one call.
struct Operands {
    torch::Tensor q;  ///< for softmax: x [rows, N], and no other
    torch::Tensor k = {};
    torch::Tensor v = {};
    std::optional<torch::Tensor> kv_lengths = {};
    torch::Tensor out = {}, lse = {};        ///< of a backward pass: what a forward pass made of the others
    torch::Tensor dout = {}, dlse = {};      ///< and what reaches these from a loss
    torch::Tensor cosines = {}, sines = {};  ///< of Form::eight_bits with a rotary embedding
};

/// A function under test, and what it takes. The limits bound the time of one problem, not what the entry can do.
struct Entry {
    int phase = 0;
    std::string name = {};       ///< the C++ function in namespace ladder
    std::string header = {};     ///< where it is declared
    std::string test_file = {};  ///< where tests of it live
    Form form = Form::attention;
    bool rounds_scores = false;      ///< to the dtype of q, as plain torch calls would; see is_decidable
    bool rounds_weights = false;     ///< to 16 bits, where q has them; see is_decidable
    bool adds_keys_in_turn = false;  ///< all terms of a row's sums one after another; see is_decidable
    bool repeats = true;             ///< bitwise, with any number of workers
    bool chooses_by_size = false;    ///< in float32 its tiles depend on how many blocks there are of them
    std::vector<torch::ScalarType> dtypes = {torch::kFloat32, torch::kFloat16, torch::kBFloat16};
    simt::Features needs = {};  ///< of a device; none that lacks them is imitated
    std::int64_t widest_head = kMaxHeadDim;
    std::vector<Mask> masks = {Mask::none};
    std::int64_t longest_query = 200;
    std::int64_t longest_key = 600;
    std::int64_t most_work = 1'500'000;  ///< multiply-adds of one matrix product, see reference::work
    std::int64_t most_scores = 60'000;   ///< B * Hq * Sq * Sk

    /// Calls it. The result of softmax goes into `out`.
    std::function<AttentionResult(const Operands&, const Problem&)> call = {};

    /// The same of Form::backward, which has no `call`.
    std::function<AttentionGradients(const Operands&, const Problem&)> differentiate = {};

    /// The rule for a result, of an entry that has one of its own. The rule for the dtype of q when absent.
    std::function<reference::Comparison(const AttentionResult&, const Operands&, const Problem&)> compare = {};

    /// What a printed test calls in place of `compare`, a function of (result, q, k, v, options, how), and where that
    /// is.
    std::string comparison = {}, comparison_header = {};

    /// What a printed test of a backward pass passes between options and dlse: "{.gather = DqGather::atomics}".
    std::string more_arguments = "{}";
};

}  // namespace ladder::fuzz
