#pragma once

#include <initializer_list>
#include <string>

#include "common/attention/options.h"
#include "common/torch/torch.h"

namespace ladder {

/// The largest problem that every phase takes: D, B or Hq, Sq or Sk.
inline constexpr int64_t kMaxHeadDim = 256;
inline constexpr int64_t kMaxBatchOrHeads = 65535;  // the y and z axes of a CUDA grid
inline constexpr int64_t kMaxLength =
    (int64_t{1} << 31) - 1024;  // row numbers fit an int, the last tile's overhang too

/// Throws std::invalid_argument unless q, k, v describe one attention problem that every phase can take; the message
/// names the argument, what it is and what it may be. Nothing has been allocated or launched when it throws.
///
///   q [B, Hq, Sq, D], k and v [B, Hkv, Sk, D]; Hq a multiple of Hkv; all sizes >= 1; D <= 256
///   one dtype of float32, float16, bfloat16; one device, CPU or CUDA; last dimension contiguous
///   scale finite; mask one of `masks`
void check_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                     const AttentionOptions& options, std::initializer_list<Mask> masks = {Mask::none});

/// The part of the check that concerns one tensor on its own: defined, dtype, device, layout, contiguous last
/// dimension, no empty dimension, `rank` dimensions. For entries whose arguments are not q, k and v.
void check_tensor(const std::string& name, const torch::Tensor& tensor, int64_t rank);

/// Throws std::invalid_argument if a kernel needs more shared memory per block than the device can give: says what is
/// required, the limit (with opt-in), the device, and that `remedy` helps.
void check_shared_memory(const std::string& kernel, std::size_t required_bytes, torch::Device device,
                         const std::string& remedy);

/// The mask of that name, for callers that pass one as text; throws std::invalid_argument for a name not among `masks`,
/// listing those.
Mask mask_named(const std::string& name, std::initializer_list<Mask> masks);

/// "[2, 8, 128, 64]", for messages.
std::string shape_of(const torch::Tensor& tensor);

}  // namespace ladder
