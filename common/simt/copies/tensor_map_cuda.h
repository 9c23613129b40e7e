#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "common/simt/copies/tensor_map_shape.h"
#include "common/simt/language/float16_cuda.h"

// Tensor maps as the GPU takes them. The driver writes them; its function is asked for by name, so that programs start
// without a driver, and link to none.

namespace simt {
inline namespace cuda {

/// A tensor's map, see tensor_map.h. A kernel takes it as `const __grid_constant__ TensorMap<T, Rank>`, since TMA reads
/// it where it lies.
template <class T, int Rank>
struct TensorMap {
    static_assert(Rank >= 2 && Rank <= kMostMapDimensions, "a tensor map has 2 to 5 dimensions");
    CUtensorMap encoded;
};

/// How TMA calls elements of type T. Sums need to know more than their size.
template <class T>
constexpr CUtensorMapDataType map_data_type() {
    if constexpr (std::is_same_v<T, float>)
        return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    else if constexpr (std::is_same_v<T, f16>)
        return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    else if constexpr (std::is_same_v<T, bf16>)
        return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    else if constexpr (std::is_same_v<T, int>)
        return CU_TENSOR_MAP_DATA_TYPE_INT32;
    else if constexpr (sizeof(T) == 1)
        return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    else if constexpr (sizeof(T) == 2)
        return CU_TENSOR_MAP_DATA_TYPE_UINT16;
    else if constexpr (sizeof(T) == 4)
        return CU_TENSOR_MAP_DATA_TYPE_UINT32;
    else {
        static_assert(sizeof(T) == 8, "elements of a tensor map have 1, 2, 4 or 8 bytes");
        return CU_TENSOR_MAP_DATA_TYPE_UINT64;
    }
}

/// The driver's cuTensorMapEncodeTiled. Throws std::runtime_error where the driver has none.
inline PFN_cuTensorMapEncodeTiled_v12000 encoder_of_tensor_maps() {
    static const auto found = [] {
        void* function = nullptr;
        cudaDriverEntryPointQueryResult answer = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
        const cudaError_t error =
            cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &answer);
#else
        const cudaError_t error =
            cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &answer);
#endif
        if (error != cudaSuccess || answer != cudaDriverEntryPointSuccess || !function)
            throw std::runtime_error(std::string("the driver has no cuTensorMapEncodeTiled (") +
                                     cudaGetErrorString(error) + "): tensor maps need a driver of CUDA 12 or later");
        return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
    }();
    return found;
}

template <class T, int Rank>
TensorMap<T, Rank> make_tensor_map(const char* name, const TensorMapShape& shape) {
    std::array<cuuint64_t, Rank> extents, strides;  // the last stride is not asked for
    std::array<cuuint32_t, Rank> box, steps;
    for (int d = 0; d < Rank; ++d) {
        const auto from = std::size_t(Rank - 1 - d), to = std::size_t(d);  // innermost first
        extents[to] = cuuint64_t(shape.extents[from]);
        box[to] = cuuint32_t(shape.box[from]);
        steps[to] = cuuint32_t(shape.steps[from]);
        strides[to] = d + 1 < Rank ? cuuint64_t(shape.byte_strides[from - 1]) : 0;
    }
    constexpr std::array swizzles{CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B, CU_TENSOR_MAP_SWIZZLE_64B,
                                  CU_TENSOR_MAP_SWIZZLE_128B};
    TensorMap<T, Rank> map;
    const CUresult result = encoder_of_tensor_maps()(
        &map.encoded, map_data_type<std::remove_const_t<T>>(), Rank, shape.data, extents.data(), strides.data(),
        box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzles[std::size_t(shape.swizzle)],
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        throw std::runtime_error(std::string("tensor map of ") + name + ": cuTensorMapEncodeTiled gave error " +
                                 std::to_string(int(result)));
    return map;
}

}  // namespace cuda
}  // namespace simt
