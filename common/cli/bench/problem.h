#pragma once

#include <cstdint>
#include <string>

#include "common/rung/bench.h"
#include "common/torch/torch.h"

namespace ladder::cli::bench {

using namespace ladder::bench;

/// Pairs of a query and a key that it sees, in one head: Sq Sk without a mask.
std::int64_t visible_pairs(const Problem& problem);

/// Useful floating-point operations: 4 D for each query head and visible pair (a product and a sum, for S and for O),
/// 10 D for a backward pass (for S, dP, dV, dQ and dK, each once); 5 an element for a softmax (compare, subtract,
/// exponential, add, multiply). The softmax inside attention is not counted, by custom.
double useful_flops(const Problem& problem);

/// Bytes that no algorithm can avoid: the matrix in and out for a softmax, keys and values once for the others, and as
/// much for their gradients.
double useful_bytes(const Problem& problem);

/// "f32", "f16", "bf16"
std::string short_name(torch::ScalarType dtype);
torch::ScalarType dtype_named(const std::string& name);

/// "f32 B4 H16 N4096 D64 causal", "bf16 B1 H32/8 1x65536 D128 s16" (16 splits), "f32 B4 H16 N4096 D64 bwd" (a backward
/// pass), "f32 16384x4096"
std::string text_of(const Problem& problem);

}  // namespace ladder::cli::bench
