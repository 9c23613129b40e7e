#pragma once

#include <cstdint>
#include <optional>

#include "common/attention/arguments.h"
#include "common/attention/options.h"

namespace ladder {

/// What a decoding call may ask for besides q, k and v.
struct DecodeOptions {
    AttentionOptions attention =
        {};  ///< scale; mask none or causal_bottom_right, counted from each sequence's own length

    /// [B] int32 or int64, on the device of q: how many keys of the cache belong to each sequence, 0 to Smax. Keys
    /// beyond are never read. All of Smax when absent.
    ///
    /// The values are copied to the host to be checked, and to plan for the longest sequence rather than for the
    /// cache's capacity. On a GPU that waits for the stream.
    std::optional<torch::Tensor> kv_lengths = {};

    /// Into how many pieces to split the keys of each sequence: 1 to 1024. Pieces are made of runs of up to 128 keys;
    /// with fewer runs than pieces, some are empty. Chosen from the device and the problem when absent.
    std::optional<std::int64_t> splits = {};
};

/// Flash decoding (Dao, Haziza, Massa, Sizov 2023): attention of one or a few query tokens over a long KV cache. The
/// keys are split over blocks; a second kernel merges their partial results.
///
///   q     [B, Hq, Sq, D]     float32, float16 or bfloat16; D <= 256; last dimension contiguous
///   k, v  [B, Hkv, Smax, D]  Hq a multiple of Hkv; the query heads of one KV head share one pass over it
///
/// A row that sees no key (a sequence of length 0, or masked) gets out 0 and lse -inf. The split count changes nothing
/// beyond rounding; with a given count, runs repeat bitwise (and a sequence alone may round otherwise than in a batch).
/// Splits are merged by their log-sum-exp in float32, whose rounding, a relative 2^-24, their weights carry: where all
/// scores lie near 1000 or -1000 that is 3e-5 of a weight.
///
/// Runs on the device that holds the tensors, with the kernel of decode_pipelined.cuh where that can run, and with that
/// of decode.cuh otherwise. Throws std::invalid_argument on bad input, before anything is launched.
AttentionResult flash_decode(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             const DecodeOptions& options = {});

/// The same with the kernel of decode.cuh, always.
AttentionResult flash_decode_plain(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const DecodeOptions& options = {});

/// The same with the kernel of decode_pipelined.cuh, always: float16 or bfloat16; rows of q, k and v that start at
/// multiples of 16 bytes and are multiples of 16 bytes long; up to 2^30 keys; a mask with one query token only. Throws
/// std::invalid_argument for anything else, and for a device with too little shared memory; std::runtime_error for one
/// without asynchronous copies, ldmatrix or mma.
AttentionResult flash_decode_pipelined(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                       const DecodeOptions& options = {});

/// The first half of flash_decode: attention over each piece of the keys on its own, for merge_partials(), where pieces
/// of other calls, or of other devices, may join them. Into two pieces at least; a piece without keys is out 0, lse
/// -inf.
///
///   out  [splits, B, Hq, Sq, D]  float32
///   lse  [splits, B, Hq, Sq]     float32
AttentionResult flash_decode_parts(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const DecodeOptions& options = {});

/// The split count that flash_decode uses for such a call: the given one, or the planned one.
int flash_decode_splits(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                        const DecodeOptions& options = {});

/// What each of them moves between its kernels and global memory for such a call, both kernels together.
GlobalBytes flash_decode_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const DecodeOptions& options = {});
GlobalBytes flash_decode_plain_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const DecodeOptions& options = {});
GlobalBytes flash_decode_pipelined_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                         const DecodeOptions& options = {});

/// Merges attention over parts of the keys into attention over all of them: the combine kernel on its own.
///
///   out_parts  [P, B, H, S, D]  float32: the out of each part
///   lse_parts  [P, B, H, S]     float32: its lse; a part whose lse is -inf counts for nothing where others do
///
/// Returns out [B, H, S, D] and lse [B, H, S] in float32. Throws std::invalid_argument on bad input.
AttentionResult merge_partials(const torch::Tensor& out_parts, const torch::Tensor& lse_parts);

}  // namespace ladder
