#pragma once

// Tensor maps: what a copy by TMA must know of a tensor. Made on the host, handed to a kernel as
//
//     __global__ void kernel(const __grid_constant__ simt::TensorMap<const f16, 4> K_map, …)
//
// and then named by tma_load and its kind, see tma_cuda.h. TensorMap itself is each machine's own.

#include <array>
#include <cstdint>

#include "common/simt/copies/tensor_map_shape.h"
#include "common/simt/language/swizzle.h"
#include "common/simt/views/panel_layout.h"
#include "common/simt/views/tensor_argument.h"

namespace simt {
inline namespace SIMT_NAMESPACE {

/// One, for each dimension.
template <int Rank>
constexpr std::array<int, Rank> every_element() {
    std::array<int, Rank> steps{};
    for (int& step : steps) step = 1;
    return steps;
}

/// A map of the tensor, seen in the shape that is given, for copies of so large a box. Elements beyond the tensor's
/// ends are read as zeros, and not written. T is const for a tensor that is only read.
///
/// box    elements along each dimension, outermost first: at most 256, and in a row (the last dimension) a multiple of
///        16 bytes, no more than the swizzle spans
/// steps  of the box only every so many-th element is copied; 1 for the last dimension, at most 8
///
/// Throws std::invalid_argument, with the rule that is broken.
template <class T, int Rank>
TensorMap<T, Rank> tensor_map(const TensorArgument& argument, const TensorShape<Rank>& shape,
                              const std::array<int, Rank>& box, Swizzle swizzle,
                              const std::array<int, Rank>& steps = every_element<Rank>()) {
    TensorMapShape map = map_shape_of(argument, Rank, shape.extents.data(), shape.strides.data(), int(sizeof(T)));
    set_box(map, argument.name, box.data(), steps.data(), swizzle);
    return make_tensor_map<T, Rank>(argument.name, map);
}

/// The same in the shape that the tensor has.
template <class T, int Rank>
TensorMap<T, Rank> tensor_map(const TensorArgument& argument, const std::array<int, Rank>& box, Swizzle swizzle,
                              const std::array<int, Rank>& steps = every_element<Rank>()) {
    TensorMapShape map = map_shape_of(argument, Rank, int(sizeof(T)));
    set_box(map, argument.name, box.data(), steps.data(), swizzle);
    return make_tensor_map<T, Rank>(argument.name, map);
}

/// A map whose copies fill tiles of Rows x Columns, PanelTile<T, Rows, Columns, S>, with rows along the last dimension
/// but one: a box of {1, …, 1, Rows, columns of a panel}.
template <class T, int Rank, int Rows, int Columns, Swizzle S>
TensorMap<T, Rank> tile_map(const TensorArgument& argument) {
    std::array<int, Rank> box = every_element<Rank>();
    box[Rank - 2] = Rows;
    box[Rank - 1] = PanelLayout<int(sizeof(T)), Rows, Columns, S>::panel_columns;
    return tensor_map<T, Rank>(argument, box, S);
}

}  // namespace SIMT_NAMESPACE
}  // namespace simt
