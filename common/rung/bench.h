#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/attention/arguments.h"
#include "common/attention/options.h"
#include "common/torch/torch.h"

namespace ladder::bench {

/// What is computed, and so what its speed is counted in.
enum class Work {
    softmax,    ///< bytes: the matrix once in, once out
    attention,  ///< floating-point operations
    decode,     ///< bytes: every key and value once
    backward,   ///< floating-point operations
};

/// One problem, fully determined by these fields.
struct Problem {
    Work work = Work::attention;
    torch::ScalarType dtype = torch::kFloat32;
    std::int64_t batch = 1;
    std::int64_t query_heads = 1;
    std::int64_t kv_heads = 1;
    std::int64_t queries = 1;   ///< Sq; the rows of a softmax
    std::int64_t keys = 1;      ///< Sk; the columns of a softmax
    std::int64_t head_dim = 1;  ///< D; 1 for a softmax
    Mask mask = Mask::none;
    std::optional<std::int64_t> splits = {};  ///< of a decode; as planned when absent

    AttentionOptions options() const { return {.scale = {}, .mask = mask}; }

    friend bool operator==(const Problem&, const Problem&) = default;
};

/// The question that a case helps to answer. One case may serve several.
enum class Sweep {
    headline,         ///< the figures that the README shows
    ladder,           ///< one for each rung, of comparable size: the ladder chart and the roofline
    length,           ///< N, with batch * N constant
    columns,          ///< of a softmax
    head_dim,         ///< D
    dtype,            ///< float32, float16, bfloat16
    batch_and_heads,  ///< how many blocks there are to share out
    kv_length,        ///< of the cache, when decoding
    splits,           ///< of the keys, when decoding
};

/// One problem, and the entries of a phase that are timed on it.
struct Case {
    int phase = 0;
    std::vector<std::string> entries = {};
    Problem problem = {};
    std::set<Sweep> sweeps = {};
    bool quick = false;  ///< part of --quick, where every case of the ladder is
};

using Tensors = std::vector<torch::Tensor>;  ///< of a problem: {q, k, v}, {x} for a softmax, {q, k, v, dout, out, lse}
                                             ///< for a backward pass

/// Whether a result is right, and by how much.
struct Verdict {
    bool right = false;
    double max_abs_error = 0;
    double bound = 0;
    std::string text = {};
};

/// The first kernel of an entry on its own. What the whole takes more is the price of the rest.
struct FirstStep {
    std::string name = {};
    std::string heading = {};  ///< of the column that shows the price: "merge"
    std::string legend = {};   ///< what that column means

    /// Absent where the entry has no further step on this problem.
    std::function<bool(const Tensors& inputs, const Problem&)> there_is_more = {};
    std::function<Tensors(const Tensors& inputs, const Problem&)> call = {};

    /// What the entry as a whole makes of the step's outputs, in torch: that can be checked.
    std::function<Tensors(const Tensors& outputs, const Tensors& inputs)> finish = {};

    /// Bytes that it leaves for the rest, beside those that no algorithm can avoid.
    std::function<double(const Tensors& inputs, const Problem&)> bytes_left = {};
};

/// An entry to be timed.
struct Entry {
    std::string name = {};
    std::string colour = {};  ///< of its curves and bars, such as "#3b8fd6"
    std::function<Tensors(const Tensors& inputs, const Problem&)> call = {};
    std::function<GlobalBytes(const Tensors& inputs, const Problem&)> bytes = {};  ///< what it moves, by formula

    /// The name under which it takes part in masked problems of other phases, on the same tensors without the mask.
    std::string unmasked_peer = {};
    std::optional<FirstStep> first_step = {};

    /// What `call` is given in place of the inputs, where something is made of them beforehand, once, which is not
    /// timed.
    std::function<Tensors(const Tensors& inputs, const Problem&)> prepare = {};
    /// Judges the results, where the rule that holds for everybody else does not apply.
    std::function<Verdict(const Tensors& outputs, const Tensors& inputs, const Problem&)> judge = {};
};

/// An entry `Run(q, k, v, options)` whose traffic is `Bytes(q, k, v, options)`.
template <auto Run, auto Bytes>
Entry attention_entry(std::string name, std::string colour) {
    return {.name = std::move(name),
            .colour = std::move(colour),
            .call =
                [](const Tensors& t, const Problem& p) {
                    const AttentionResult result = Run(t[0], t[1], t[2], p.options());
                    return Tensors{result.out, result.lse};
                },
            .bytes = [](const Tensors& t, const Problem& p) { return Bytes(t[0], t[1], t[2], p.options()); }};
}

}  // namespace ladder::bench
