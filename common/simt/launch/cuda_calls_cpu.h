#pragma once

#include <cstddef>

#include "common/simt/language/cuda_names.h"

// What CUDA's calls for launches take and give, as far as the CPU machine has it.

namespace simt {
inline namespace cpu {

/// The error codes that the CPU machine gives, with CUDA's names and numbers.
enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorNotSupported = 801,
    cudaErrorInvalidClusterSize = 912,
};

/// A code's name, and what it means in a sentence.
const char* cudaGetErrorName(cudaError_t);
const char* cudaGetErrorString(cudaError_t);

/// Launches finish before they return, so there is one stream and it is always empty.
using cudaStream_t = void*;

/// What a launch can be told besides; see common/simt/sync/early_launch_cuda.h and cluster_cuda.h.
enum cudaLaunchAttributeID {
    cudaLaunchAttributeClusterDimension = 4,
    cudaLaunchAttributeProgrammaticStreamSerialization = 6,
};
/// What is said about an attribute.
union cudaLaunchAttributeValue {
    int programmaticStreamSerializationAllowed;  ///< not 0: the launch may begin before the one before it has ended
    /// How many blocks a cluster has.
    struct {
        unsigned x, y, z;  ///< along each axis, at least 1
    } clusterDim;
};
/// An attribute of a launch, and its value.
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;      ///< which
    cudaLaunchAttributeValue val;  ///< what is said about it
};

/// What cudaLaunchKernelEx() is to launch.
struct cudaLaunchConfig_t {
    dim3 gridDim;                          ///< blocks
    dim3 blockDim;                         ///< threads of each block
    std::size_t dynamicSmemBytes = 0;      ///< shared memory of each block
    cudaStream_t stream = nullptr;         ///< the one there is
    cudaLaunchAttribute* attrs = nullptr;  ///< so many as the next line says
    unsigned numAttrs = 0;                 ///< of attrs
};

/// What cudaFuncSetAttribute() can set: how much shared memory a kernel may be launched with.
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

}  // namespace cpu
}  // namespace simt

using simt::cpu::cudaError_t;
using simt::cpu::cudaErrorInvalidClusterSize;
using simt::cpu::cudaErrorInvalidConfiguration;
using simt::cpu::cudaErrorInvalidValue;
using simt::cpu::cudaErrorNotSupported;
using simt::cpu::cudaFuncAttribute;
using simt::cpu::cudaFuncAttributeMaxDynamicSharedMemorySize;
using simt::cpu::cudaGetErrorName;
using simt::cpu::cudaGetErrorString;
using simt::cpu::cudaLaunchAttribute;
using simt::cpu::cudaLaunchAttributeClusterDimension;
using simt::cpu::cudaLaunchAttributeProgrammaticStreamSerialization;
using simt::cpu::cudaLaunchConfig_t;
using simt::cpu::cudaStream_t;
using simt::cpu::cudaSuccess;
