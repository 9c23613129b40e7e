#include "common/simt/copies/tensor_map_cuda.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <algorithm>
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
        const cudaError_t error =
            cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &result);
        if (error != cudaSuccess || result != cudaDriverEntryPointSuccess || !entry)
            throw std::runtime_error(
                "no CUDA driver here knows cuTensorMapEncodeTiled, which makes tensor maps; drivers from 525 (CUDA "
                "12.0) "
                "on do");
        return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(entry);
    }();
    return function;
}

CUtensorMapDataType driver_type(ElementType type) {
    switch (type) {
        case ElementType::f32:
            return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
        case ElementType::f16:
            return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
        case ElementType::bf16:
            return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
        case ElementType::i32:
            return CU_TENSOR_MAP_DATA_TYPE_INT32;
        case ElementType::e4m3:
        case ElementType::e5m2:
            return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    }
    return CU_TENSOR_MAP_DATA_TYPE_UINT8;
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

void encode_tensor_map(std::uint64_t (&bits)[16], const TensorArgument& tensor, const int* box, Swizzle swizzle) {
    const int rank = tensor.rank;
    // The driver counts dimensions from the innermost, and knows no stride of that one: it is 1.
    cuuint64_t extents[5], strides[4];
    cuuint32_t box_extents[5], steps[5];
    const auto bytes = std::int64_t(element_bytes(tensor.type));
    for (int i = 0; i < rank; ++i) {
        const int dimension = rank - 1 - i;
        extents[i] = cuuint64_t(tensor.extents[dimension]);
        box_extents[i] = cuuint32_t(box[dimension]);
        steps[i] = 1;
        // The stride of a dimension of one element means nothing, and may be anything.
        if (i > 0) strides[i - 1] = tensor.extents[dimension] > 1 ? cuuint64_t(tensor.strides[dimension] * bytes) : 16;
    }
    CUtensorMap map;
    const CUresult result =
        encode_function()(&map, driver_type(tensor.type), cuuint32_t(rank), tensor.data, extents, strides, box_extents,
                          steps, CU_TENSOR_MAP_INTERLEAVE_NONE, driver_swizzle(swizzle),
                          CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        throw std::invalid_argument("tensor map of " + std::string(tensor.name) + ": the driver refuses it (code " +
                                    std::to_string(int(result)) + ")");
    std::memcpy(bits, &map, sizeof map);
}

}  // namespace cuda
}  // namespace simt
