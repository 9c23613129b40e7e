#pragma once

#include "common/attention/arguments.h"
#include "common/torch/torch.h"

namespace ladder {

/// Softmax over each row of a matrix: y_ij = exp(x_ij - m_i) / sum_j exp(x_ij - m_i), with m_i the maximum of row i.
///
///   x       [rows, N]   float32, float16 or bfloat16; last dimension contiguous, rows at any distance
///   result  [rows, N]   contiguous, the dtype of x; sums are kept in float32
///
/// A row that holds +inf or NaN, or nothing but -inf, becomes NaN, as with torch::softmax. They all run on the device
/// that holds x, and throw std::invalid_argument on bad input, before anything is launched.
///
/// Three passes over each row: maximum, sum, write. One warp per row.
torch::Tensor safe_softmax(const torch::Tensor& x);

/// Two passes over each row: maximum and sum together, then write (Milakov and Gimelshein 2018, Algorithm 3). One warp
/// per row. Shapes and errors as for safe_softmax.
torch::Tensor online_softmax(const torch::Tensor& x);

/// online_softmax with as many warps on a row as it is worth: for long rows. Where rows are aligned to 16 bytes it is
/// resident_softmax, if the device can, else block_plain_softmax. Shapes and errors as for safe_softmax.
torch::Tensor block_softmax(const torch::Tensor& x);

/// The plain kernel of the two (softmax.cuh), which reads each row twice.
torch::Tensor block_plain_softmax(const torch::Tensor& x);

/// The other (resident_softmax.cuh), which keeps a row on the chip between its two passes, as much of it as there is
/// room for. Throws std::invalid_argument also where rows are not aligned to 16 bytes, and on a device without
/// asynchronous copies where they are longer than 32 KiB.
torch::Tensor resident_softmax(const torch::Tensor& x);

/// What each of them moves between its kernel and global memory for such an x.
GlobalBytes safe_softmax_bytes(const torch::Tensor& x);
GlobalBytes online_softmax_bytes(const torch::Tensor& x);
GlobalBytes block_softmax_bytes(const torch::Tensor& x);
GlobalBytes block_plain_softmax_bytes(const torch::Tensor& x);
GlobalBytes resident_softmax_bytes(const torch::Tensor& x);

}  // namespace ladder
