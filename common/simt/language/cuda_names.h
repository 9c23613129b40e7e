#pragma once

#include <cstddef>

// The words that CUDA adds to C++. They are keywords to nvcc; to the CPU machine most of them carry no information,
// since every function runs on the one processor.
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __restrict__ __restrict

// So many threads may a block have at most. A GPU's compiler takes it as a promise, and a launch with more is refused.
// For a run to see the number, it must survive compilation, also where it depends on a template's parameters: g++
// leaves so many bytes of room in front of the kernel's code, and a word that says where the room begins
// (common/simt/launch/launch_bounds.h reads it). Nothing ever runs there. clang refuses numbers that depend on a
// template, so that it gets none.
#if defined(__GNUC__) && !defined(__clang__)
#define SIMT_KEEPS_LAUNCH_BOUNDS
#define __launch_bounds__(...)                                                                \
    __attribute__((patchable_function_entry(simt::cpu::threads_of_launch_bounds(__VA_ARGS__), \
                                            simt::cpu::threads_of_launch_bounds(__VA_ARGS__))))
#else
#define __launch_bounds__(...)
#endif

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

/// Vectors of these elements, as CUDA's functions of the same names make them.
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

/// Where the running thread is, and how large its block and grid are. The scheduler writes threadIdx at each switch
/// between the threads of a block.
[[gnu::tls_model("initial-exec")]] inline constinit thread_local uint3 threadIdx{};
[[gnu::tls_model("initial-exec")]] inline constinit thread_local uint3 blockIdx{};
[[gnu::tls_model("initial-exec")]] inline constinit thread_local dim3 blockDim{};
[[gnu::tls_model("initial-exec")]] inline constinit thread_local dim3 gridDim{};

/// The first argument of `__launch_bounds__`; the others are about blocks.
constexpr int threads_of_launch_bounds(int threads, int = 0, int = 0) { return threads; }

/// Threads of a warp.
inline constexpr int warpSize = 32;

}  // namespace cpu
}  // namespace simt

using simt::cpu::blockDim;
using simt::cpu::blockIdx;
using simt::cpu::dim3;
using simt::cpu::float2;
using simt::cpu::float4;
using simt::cpu::gridDim;
using simt::cpu::make_float2;
using simt::cpu::make_float4;
using simt::cpu::threadIdx;
using simt::cpu::uint3;
using simt::cpu::warpSize;
