#pragma once

#include <optional>

#include "common/attention/arguments.h"
#include "common/attention/gradients.h"
#include "common/attention/options.h"
#include "common/torch/torch.h"

namespace ladder {

/// Who adds up dQ, whose terms come from every key tile.
enum class DqGather {
    second_pass,  ///< a kernel of its own, in which blocks keep query tiles: repeats bitwise, computes S and dP again
    in_order,     ///< the kernel of dK and dV, key tile after key tile: repeats bitwise, blocks wait for one another
    atomics,  ///< the kernel of dK and dV, by atomic additions: NOT deterministic, sums have another order each time
};

/// What a caller may choose besides the problem.
struct BackwardOptions {
    DqGather gather = DqGather::second_pass;  ///< how dQ is added up
};

/// FlashAttention-2, backward (Dao 2023, Algorithm 2): the gradients of a loss with respect to q, k and v, from its
/// gradient with respect to the output, and to the log-sum-exp where the loss looks at that.
///
///   dout, q, out  [B, Hq, Sq, D]    float32, float16 or bfloat16, one dtype; D <= 256; last dimension contiguous
///   k, v          [B, Hkv, Sk, D]   Hq a multiple of Hkv
///   lse, dlse     [B, Hq, Sq]       float32; out and lse are what the forward pass gave for q, k, v and `options`
///
/// Rows that see no key have dq 0 and add nothing to dk and dv. What a query may not see does not reach its dq, and a
/// query does not reach the dk and dv of a key that it may not see, NaN and infinities included. Runs on the device
/// that holds the tensors. Throws std::invalid_argument on bad input, and when the device has too little shared memory
/// for the head dimension, before anything is launched.
AttentionGradients plain_backward(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k,
                                  const torch::Tensor& v, const torch::Tensor& out, const torch::Tensor& lse,
                                  const AttentionOptions& options = {}, const BackwardOptions& backward_options = {},
                                  const std::optional<torch::Tensor>& dlse = {});

/// The same with larger tiles for the kernel of dK and dV, in float32: D at most kWidestTiledBackward, on a device with
/// asynchronous copies and 203 KiB of shared memory per block (for D = 64; 138 KiB for D <= 32). Throws as
/// plain_backward() does, and where it cannot run.
AttentionGradients tiled_backward(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k,
                                  const torch::Tensor& v, const torch::Tensor& out, const torch::Tensor& lse,
                                  const AttentionOptions& options = {}, const BackwardOptions& backward_options = {},
                                  const std::optional<torch::Tensor>& dlse = {});

/// With D = 128, dK_j, dV_j and the scores of tiles so large would not fit the registers.
inline constexpr int64_t kWidestTiledBackward = 64;

/// Throws std::invalid_argument unless tiled_backward() can run on q: its dtype, head dimension and device.
void check_tiled_backward(const torch::Tensor& q);

/// What its kernels move to and from global memory for such a problem. An atomic addition counts as a write.
GlobalBytes plain_backward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                 const AttentionOptions& options = {}, const BackwardOptions& backward_options = {},
                                 bool has_dlse = false);

/// Likewise.
GlobalBytes tiled_backward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                 const AttentionOptions& options = {}, const BackwardOptions& backward_options = {},
                                 bool has_dlse = false);

}  // namespace ladder
