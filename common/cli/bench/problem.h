#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "common/attention/arguments.h"

namespace ladder::cli::bench {

/// What is computed, and so what its speed is counted in.
enum class Work {
    softmax,    ///< bytes: the matrix once in, once out
    attention,  ///< floating-point operations
    decode,     ///< bytes: every key and value once
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

    friend bool operator==(const Problem&, const Problem&) = default;
};

/// Pairs of a query and a key that it sees, in one head: Sq Sk without a mask.
std::int64_t visible_pairs(const Problem& problem);

/// Useful floating-point operations: 4 D for each query head and visible pair (a product and a sum, for S and for O);
/// 5 an element for a softmax (compare, subtract, exponential, add, multiply). The softmax inside attention is not
/// counted, by custom.
double useful_flops(const Problem& problem);

/// Bytes that no algorithm can avoid: the matrix in and out for a softmax, keys and values once for the others.
double useful_bytes(const Problem& problem);

/// "f32", "f16", "bf16"
std::string short_name(torch::ScalarType dtype);
torch::ScalarType dtype_named(const std::string& name);

/// "f32 B4 H16 N4096 D64 causal", "bf16 B1 H32/8 1x65536 D128 s16" (16 splits), "f32 16384x4096"
std::string text_of(const Problem& problem);

}  // namespace ladder::cli::bench
