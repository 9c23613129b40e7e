// Not #pragma once, which knows a file by its time too: a cache of compilers' output may return this header precompiled
// from an older copy.
#ifndef LADDER_COMMON_TORCH_TORCH_H
#define LADDER_COMMON_TORCH_TORCH_H

// What this repository takes from libtorch: tensors, and the functions that make and combine them, each by its own
// header. To use another function, add its header to the list, or include it in the one file that needs it.
// <torch/types.h> has them all, two thousand, and every file that includes it, precompiled or not, takes a second
// longer to compile.

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/concat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/dot.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/log2.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/nextafter.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

/// As <torch/types.h> has it.
namespace torch {

using namespace at;  // NOLINT(google-build-using-namespace)

constexpr auto kUInt8 = at::kByte;      ///< without a sign
constexpr auto kInt16 = at::kShort;     ///< 16 bits
constexpr auto kInt32 = at::kInt;       ///< 32 bits
constexpr auto kInt64 = at::kLong;      ///< 64 bits
constexpr auto kFloat16 = at::kHalf;    ///< 11 bits of precision
constexpr auto kFloat32 = at::kFloat;   ///< 24 bits of precision
constexpr auto kFloat64 = at::kDouble;  ///< 53 bits of precision

}  // namespace torch

#endif
