#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "common/simt/copies/tensor_map_shape.h"
#include "common/simt/memory/global_memory.h"
#include "common/simt/memory/tensor_names.h"

namespace simt {
inline namespace SIMT_NAMESPACE {

/// A tensor's map, see tensor_map.h. On both CPU machines nothing but its numbers, and the name that traffic is counted
/// under.
template <class T, int Rank>
class TensorMap {
    static_assert(Rank >= 2 && Rank <= kMostMapDimensions, "a tensor map has 2 to 5 dimensions");

  public:
    using Element = T;                 ///< const for one that is only read
    static constexpr int rank = Rank;  ///< its dimensions

    /// One that was never made, which no copy takes.
    TensorMap() = default;

    /// Of numbers that obey the rules; tensor_map() makes them.
    TensorMap(const TensorMapShape& shape, int tensor) : shape_(shape), tensor_(tensor) {}

    /// What it says, and of which tensor.
    const TensorMapShape& shape() const { return shape_; }
    int tensor() const { return tensor_; }

  private:
    TensorMapShape shape_;
    int tensor_ = 0;
};

template <class T, int Rank>
TensorMap<T, Rank> make_tensor_map(const char* name, const TensorMapShape& shape) {
    const int tensor = tensor_id(name);
    // The machine names elements in the shapes that it knows, of up to four dimensions.
    GlobalView view{.tensor = tensor,
                    .base = reinterpret_cast<std::uintptr_t>(shape.data),
                    .element_bytes = sizeof(T),
                    .rank = std::min(Rank, 4)};
    for (std::size_t d = 0, from = std::size_t(Rank - view.rank); d < std::size_t(view.rank); ++d) {
        view.extents[d] = shape.extents[from + d];
        view.strides[d] = shape.byte_strides[from + d] / std::int64_t(sizeof(T));
    }
    note_view(view, !std::is_const_v<T>, alignof(T));
    return {shape, tensor};
}

}  // namespace SIMT_NAMESPACE
}  // namespace simt
