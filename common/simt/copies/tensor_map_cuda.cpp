#include "common/simt/copies/tensor_map_cuda.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <cstring>
#include <stdexcept>
#include <string>

namespace simt {
inline namespace cuda {
namespace {

static_assert(sizeof(CUtensorMap) == 16 * sizeof(std::uint64_t));

// The driver's function, without linking its library: the program must start where there is no driver.
PFN_cuTensorMapEncodeTiled_v12000 encode_function() {
    static const auto function = [] {
        void* entry = nullptr;
        cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
        const cudaError_t error =
            cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &result);
#else
        const cudaError_t error = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &entry, cudaEnableDefault, &result);
#endif
        if (error != cudaSuccess || result != cudaDriverEntryPointSuccess || !entry)
            throw std::runtime_error(
                "no CUDA driver here knows cuTensorMapEncodeTiled, which makes tensor maps; drivers from 525 "
                "(CUDA 12.0) on do");
        return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(entry);
    }();
    return function;
}

CUtensorMapDataType driver_type(std::optional<ElementType> type, int bytes) {
    if (type == ElementType::f32) return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    if (type == ElementType::f16) return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    if (type == ElementType::bf16) return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    if (type == ElementType::i32) return CU_TENSOR_MAP_DATA_TYPE_INT32;
    switch (bytes) {
        case 1:
            return CU_TENSOR_MAP_DATA_TYPE_UINT8;
        case 2:
            return CU_TENSOR_MAP_DATA_TYPE_UINT16;
        case 4:
            return CU_TENSOR_MAP_DATA_TYPE_UINT32;
        default:
            return CU_TENSOR_MAP_DATA_TYPE_UINT64;
    }
}

CUtensorMapSwizzle driver_swizzle(Swizzle swizzle) {
    switch (swizzle) {
        case Swizzle::b32:
            return CU_TENSOR_MAP_SWIZZLE_32B;
        case Swizzle::b64:
            return CU_TENSOR_MAP_SWIZZLE_64B;
        case Swizzle::b128:
            return CU_TENSOR_MAP_SWIZZLE_128B;
        case Swizzle::none:
            break;
    }
    return CU_TENSOR_MAP_SWIZZLE_NONE;
}

}  // namespace

void encode_tensor_map(std::uint64_t (&bits)[16], const char* name, const TensorMapShape& shape,
                       std::optional<ElementType> type) {
    // The driver counts dimensions from the innermost, and knows no stride of that one: it is 1.
    cuuint64_t extents[kMostMapDimensions], strides[kMostMapDimensions];
    cuuint32_t box[kMostMapDimensions], steps[kMostMapDimensions];
    for (int i = 0; i < shape.rank; ++i) {
        const auto dimension = std::size_t(shape.rank - 1 - i);
        extents[i] = cuuint64_t(shape.extents[dimension]);
        box[i] = cuuint32_t(shape.box[dimension]);
        steps[i] = cuuint32_t(shape.steps[dimension]);
        if (i > 0) strides[i - 1] = cuuint64_t(shape.byte_strides[dimension]);
    }
    CUtensorMap map;
    const CUresult result =
        encode_function()(&map, driver_type(type, shape.element_bytes), cuuint32_t(shape.rank), shape.data, extents,
                          strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, driver_swizzle(shape.swizzle),
                          CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        throw std::runtime_error("tensor map of " + std::string(name) + ": the driver refuses it (code " +
                                 std::to_string(int(result)) + ")");
    std::memcpy(bits, &map, sizeof map);
}

}  // namespace cuda
}  // namespace simt
