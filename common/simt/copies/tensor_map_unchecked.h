#pragma once

#include "common/simt/copies/tensor_map_shape.h"

namespace simt {
inline namespace unchecked {

/// A tensor's map, see tensor_map.h: nothing but its numbers.
template <class T, int Rank>
class TensorMap {
    static_assert(Rank >= 2 && Rank <= kMostMapDimensions, "a tensor map has 2 to 5 dimensions");

  public:
    TensorMap() = default;
    explicit TensorMap(const TensorMapShape& shape) : shape_(shape) {}
    const TensorMapShape& shape() const { return shape_; }

  private:
    TensorMapShape shape_;
};

template <class T, int Rank>
TensorMap<T, Rank> make_tensor_map(const char*, const TensorMapShape& shape) {
    return TensorMap<T, Rank>(shape);
}

}  // namespace unchecked
}  // namespace simt
