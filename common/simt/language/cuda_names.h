#pragma once

#include <cstddef>

// The words that CUDA adds to C++. They are keywords to nvcc; to the CPU machine they carry no information, since every
// function runs on the one processor and __launch_bounds__ only steers register allocation.
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __restrict__ __restrict

// A raw array in shared memory, `__shared__ float sums[32];`: one for each OS thread, which runs one block at a time.
// It starts with what the block before left there, as on the GPU. The machine watches only tiles, and leaves raw arrays
// to AddressSanitizer and ThreadSanitizer. `extern __shared__` does not compile here: use
// simt::dynamic_shared_memory<T>().
#ifdef SIMT_ADDRESS_SANITIZER
// AddressSanitizer watches no thread_local arrays; so these are static, and one block runs at a time
// (kOneBlockAtATime). Nor does it watch those of functions that several files may share, such as templates; so a kernel
// is its file's own.
#define __global__ static
#define __shared__ static
#else
#define __global__
#define __shared__ static thread_local
#endif

namespace simt {
inline namespace cpu {

/// A place in a grid or a block.
struct uint3 {
    unsigned x, y, z;  ///< along each axis, from 0
};

/// The size of a grid in blocks, or of a block in threads.
struct dim3 {
    unsigned x, y, z;  ///< along each axis, at least 1

    /// Axes that are not named have one element.
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}

    /// How many there are in all. (CUDA's has no such function; kernels cannot use it.)
    constexpr std::size_t volume() const { return std::size_t{x} * y * z; }
};

/// Two floats that move together.
struct alignas(8) float2 {
    float x, y;  ///< in the order of their addresses
};

/// Four floats that move together.
struct alignas(16) float4 {
    float x, y, z, w;  ///< in the order of their addresses
};

/// As CUDA builds them.
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

/// The error codes that the CPU machine gives, with CUDA's names and numbers.
enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorNotSupported = 801,
};

/// A code's name, and what it means in a sentence.
const char* cudaGetErrorName(cudaError_t);
const char* cudaGetErrorString(cudaError_t);

/// Launches finish before they return, so there is one stream and it is always empty.
using cudaStream_t = void*;

/// What a launch can be told besides; see common/simt/sync/early_launch_cuda.h.
enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
/// What is said about an attribute.
union cudaLaunchAttributeValue {
    int programmaticStreamSerializationAllowed;  ///< not 0: the launch may begin before the one before it has ended
};
/// One property of a launch, as `id` says which.
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

/// Where the running thread is, and how large its block and grid are. The scheduler writes threadIdx at each switch
/// between the threads of a block.
[[gnu::tls_model("initial-exec")]] inline constinit thread_local uint3 threadIdx{};
[[gnu::tls_model("initial-exec")]] inline constinit thread_local uint3 blockIdx{};
[[gnu::tls_model("initial-exec")]] inline constinit thread_local dim3 blockDim{};
[[gnu::tls_model("initial-exec")]] inline constinit thread_local dim3 gridDim{};

/// Threads of a warp.
inline constexpr int warpSize = 32;

}  // namespace cpu
}  // namespace simt

using simt::cpu::blockDim;
using simt::cpu::blockIdx;
using simt::cpu::cudaError_t;
using simt::cpu::cudaErrorInvalidConfiguration;
using simt::cpu::cudaErrorInvalidValue;
using simt::cpu::cudaErrorNotSupported;
using simt::cpu::cudaFuncAttribute;
using simt::cpu::cudaFuncAttributeMaxDynamicSharedMemorySize;
using simt::cpu::cudaGetErrorName;
using simt::cpu::cudaGetErrorString;
using simt::cpu::cudaLaunchAttribute;
using simt::cpu::cudaLaunchAttributeProgrammaticStreamSerialization;
using simt::cpu::cudaLaunchConfig_t;
using simt::cpu::cudaStream_t;
using simt::cpu::cudaSuccess;
using simt::cpu::dim3;
using simt::cpu::float2;
using simt::cpu::float4;
using simt::cpu::gridDim;
using simt::cpu::make_float2;
using simt::cpu::make_float4;
using simt::cpu::threadIdx;
using simt::cpu::uint3;
using simt::cpu::warpSize;
