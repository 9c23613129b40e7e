#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace simt {
inline namespace cuda {

using f16 = __half;
using bf16 = __nv_bfloat16;

}  // namespace cuda
}  // namespace simt
