#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include "common/simt/copies/tensor_map_shape.h"
#include "common/simt/language/element_type.h"
#include "common/simt/language/float16_cuda.h"

namespace simt {
inline namespace cuda {

/// What the tensor memory accelerator knows of a tensor in global memory, see tensor_map.h. A parameter of kernels,
/// written
///
///     const __grid_constant__ simt::TensorMap<T, 4> K_map
///
/// so that its address is the parameter's own. The bits are the driver's secret.
template <class T, int Rank>
struct alignas(64) TensorMap {
    static_assert(Rank >= 2 && Rank <= kMostMapDimensions, "a tensor map has 2 to 5 dimensions");
    using Element = T;                 ///< of the tensor
    static constexpr int rank = Rank;  ///< its dimensions
    std::uint64_t bits[16];            ///< a CUtensorMap
};

/// Fills in `bits`. Where nothing is added up, `type` may be missing: then elements are but bits. Throws
/// std::runtime_error where there is no driver. (CUDA Driver API, cuTensorMapEncodeTiled.)
void encode_tensor_map(std::uint64_t (&bits)[16], const char* name, const TensorMapShape& shape,
                       std::optional<ElementType> type);

/// What elements T are to the driver.
template <class T>
constexpr std::optional<ElementType> map_element_type() {
    if constexpr (std::is_same_v<T, float>) return ElementType::f32;
    if constexpr (std::is_same_v<T, f16>) return ElementType::f16;
    if constexpr (std::is_same_v<T, bf16>) return ElementType::bf16;
    if constexpr (std::is_same_v<T, int>) return ElementType::i32;
    return std::nullopt;
}

/// The map of a shape; tensor_map() makes both.
template <class T, int Rank>
TensorMap<T, Rank> make_tensor_map(const char* name, const TensorMapShape& shape) {
    TensorMap<T, Rank> map;
    encode_tensor_map(map.bits, name, shape, map_element_type<std::remove_const_t<T>>());
    return map;
}

}  // namespace cuda
}  // namespace simt
