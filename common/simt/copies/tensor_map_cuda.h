#pragma once

#include <array>
#include <cstdint>

#include "common/simt/language/swizzle.h"
#include "common/simt/views/tensor_argument.h"

namespace simt {
inline namespace cuda {

/// What the tensor memory accelerator knows of a tensor in global memory: where it lies, its extents and strides, and
/// the box that one instruction moves. A parameter of kernels, written
///
///     const __grid_constant__ simt::TensorMap<T, 4> K_map
///
/// so that its address is the parameter's own. Made by tensor_map() or tile_map(); the bits are the driver's secret.
template <class T, int Rank>
struct alignas(64) TensorMap {
    static_assert(2 <= Rank && Rank <= 5, "the accelerator knows tensors of two to five dimensions");
    using Element = T;
    static constexpr int rank = Rank;
    std::uint64_t bits[16];
};

/// Fills in `bits`, for boxes of box[0] × … × box[rank - 1] elements. Throws std::invalid_argument, and
/// std::runtime_error where there is no driver. (CUDA Driver API, cuTensorMapEncodeTiled.)
void encode_tensor_map(std::uint64_t (&bits)[16], const TensorArgument& tensor, const int* box, Swizzle swizzle);

/// The map of a tensor for boxes of so many elements along each of its dimensions, the outermost first. What a box has
/// beyond the tensor's end arrives as zeros, and is not stored. Throws std::invalid_argument where a rule is broken:
/// base and strides are multiples of 16 bytes, the last dimension's elements are neighbours, a box has at most 256
/// elements a side, and its rows are a multiple of 16 bytes, no longer than the swizzle's span.
template <class T, int Rank>
TensorMap<T, Rank> tensor_map(const TensorArgument& tensor, const std::array<int, Rank>& box, Swizzle swizzle) {
    TensorMap<T, Rank> map;
    encode_tensor_map(map.bits, tensor, box.data(), swizzle);
    return map;
}

/// The map that fills a panel tile [Rows, Columns] of the tensor's last two dimensions, a panel at a time.
template <class T, int Rank, int Rows, int Columns, Swizzle swizzle = Swizzle::b128>
TensorMap<T, Rank> tile_map(const TensorArgument& tensor) {
    std::array<int, Rank> box;
    box.fill(1);
    box[Rank - 2] = Rows;
    box[Rank - 1] = swizzle == Swizzle::none ? Columns : int(swizzle_span(swizzle)) / int(sizeof(T));
    return tensor_map<T, Rank>(tensor, box, swizzle);
}

}  // namespace cuda
}  // namespace simt
