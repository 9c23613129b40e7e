#pragma once

// What a tensor map says, and the rules that it obeys, for all machines. Host code.

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/simt/language/swizzle.h"
#include "common/simt/views/tensor_argument.h"

namespace simt {

/// So many dimensions can a tensor map have.
inline constexpr int kMostMapDimensions = 5;

/// Extents and strides of a tensor, in elements, outermost dimension first. A map may see a tensor in another shape
/// than its argument has: with the last dimension cut in two, or several joined.
template <int Rank>
struct TensorShape {
    std::array<std::int64_t, Rank> extents{};  ///< elements along each dimension
    std::array<std::int64_t, Rank> strides{};  ///< elements from one to the next
};

/// The numbers in a tensor map, in the order of the tensor's dimensions: outermost first. (CUtensorMap has them the
/// other way round.) Those beyond `rank` are unused.
struct TensorMapShape {
    void* data = nullptr;                                         ///< element (0, …, 0)
    int rank = 0;                                                 ///< dimensions
    std::array<std::int64_t, kMostMapDimensions> extents{};       ///< elements along each dimension
    std::array<std::int64_t, kMostMapDimensions> byte_strides{};  ///< from one element to the next
    std::array<int, kMostMapDimensions> box{};                    ///< what one copy spans, before steps
    std::array<int, kMostMapDimensions> steps{};                  ///< of `box` every so many-th element is copied
    Swizzle swizzle = Swizzle::none;                              ///< of the tiles that copies fill
    int element_bytes = 0;                                        ///< of each element

    /// How many elements of a dimension a copy has.
    int count(int dimension) const {
        const auto d = std::size_t(dimension);
        return (box[d] + steps[d] - 1) / steps[d];
    }
    /// Those of the last dimension.
    int columns() const { return count(rank - 1); }
    /// All others together: the rows that a copy fills in shared memory.
    int rows() const {
        int rows = 1;
        for (int d = 0; d + 1 < rank; ++d) rows *= count(d);
        return rows;
    }
    /// What a copy brings, zeros for what lies outside included.
    std::size_t bytes() const { return std::size_t(rows()) * std::size_t(columns()) * std::size_t(element_bytes); }
};

/// The tensor's own shape. Throws std::invalid_argument if it has not `rank` dimensions.
TensorMapShape map_shape_of(const TensorArgument& argument, int rank, int element_bytes);

/// The same seen in the given shape.
TensorMapShape map_shape_of(const TensorArgument& argument, int rank, const std::int64_t* extents,
                            const std::int64_t* strides, int element_bytes);

/// Sets what one copy takes, and checks all of the map as the driver would, but in words: throws std::invalid_argument
/// with the rule, what was given and what is accepted. `name`: the tensor's. (CUDA driver API,
/// cuTensorMapEncodeTiled.)
void set_box(TensorMapShape& map, const char* name, const int* box, const int* steps, Swizzle swizzle);

}  // namespace simt
