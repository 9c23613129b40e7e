#pragma once

#include <type_traits>

#include "common/simt/sync/memory_order.h"

// Atomic accesses to an element of shared or global memory, and what they put in order. The element is what a tile or a
// tensor gives: `simt::atomic_add(bins(0, bin), 1)`.
//
// Atomic accesses of several threads may meet on an element; an atomic access and any other may not. Relaxed ones, the
// default, order nothing else. To hand over what was written elsewhere, a thread releases: it makes all that it did and
// knows of visible to whoever acquires the value that it leaves.
//
//   block A: every thread writes its part        block B: one thread: while (simt::load_acquire(flag(0)) == 0) {}
//            __syncthreads();                              __syncthreads();
//            one thread: simt::store_release(flag(0), 1);  every thread reads
//
// Or with a fence: fence() before a relaxed write releases, fence() after a relaxed read acquires. All of it holds
// among all blocks of the GPU (scope .gpu in PTX), except for fence_block() and fence_system().
//
// PTX ISA, "Memory Consistency Model"; `atom`, `red`, `ld`, `st`, `fence`. Orders need compute capability 7.0.

namespace simt {
inline namespace cuda {

/// Orders what the thread did before it before what it does after it, for all blocks: the release of a relaxed write
/// that follows, and the acquire of a relaxed read that went before. Like __threadfence().
__device__ __forceinline__ void fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

/// The same among the threads of the block alone: between blocks it orders nothing. Like __threadfence_block().
__device__ __forceinline__ void fence_block() { asm volatile("fence.acq_rel.cta;" ::: "memory"); }

/// The same for the host and other GPUs as well, where they look at memory that they share. Like
/// __threadfence_system().
__device__ __forceinline__ void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

/// Of which elements there are atomics.
template <class T>
inline constexpr bool kHasAtomics = std::is_same_v<T, float> || std::is_same_v<T, int> || std::is_same_v<T, unsigned> ||
                                    std::is_same_v<T, unsigned long long>;

/// Those with smaller and larger ones, and with a compare-and-exchange.
template <class T>
inline constexpr bool kHasIntegerAtomics = kHasAtomics<T> && !std::is_same_v<T, float>;

// clang-format off
#define SIMT_ATOM(operation, constraint)                                                                               \
    do {                                                                                                               \
        if constexpr (order == Order::acquire)                                                                         \
            asm volatile("atom.acquire.gpu." operation " %0, [%1], %2;"                                                \
                         : "=" constraint(old) : "l"(&element), constraint(value) : "memory");                         \
        else if constexpr (order == Order::release)                                                                    \
            asm volatile("atom.release.gpu." operation " %0, [%1], %2;"                                                \
                         : "=" constraint(old) : "l"(&element), constraint(value) : "memory");                         \
        else                                                                                                           \
            asm volatile("atom.acq_rel.gpu." operation " %0, [%1], %2;"                                                \
                         : "=" constraint(old) : "l"(&element), constraint(value) : "memory");                         \
    } while (false)
// clang-format on

/// Adds `value`, and returns what was there before. float, int, unsigned or unsigned long long. Sums of floats depend
/// on the order in which threads come, which no launch repeats.
template <Order order = Order::relaxed, class T>
__device__ __forceinline__ T atomic_add(T& element, std::type_identity_t<T> value) {
    static_assert(kHasAtomics<T>, "atomics take float, int, unsigned and unsigned long long");
    if constexpr (order == Order::relaxed) return atomicAdd(&element, value);
    T old;
    if constexpr (std::is_same_v<T, float>)
        SIMT_ATOM("add.f32", "f");
    else if constexpr (sizeof(T) == 8)
        SIMT_ATOM("add.u64", "l");
    else
        SIMT_ATOM("add.u32", "r");
    return old;
}

/// The same, relaxed, where nobody asks what was there before: the compiler makes a `red` of it, which need not wait
/// for an answer.
template <class T>
__device__ __forceinline__ void reduce_add(T& element, std::type_identity_t<T> value) {
    static_assert(kHasAtomics<T>, "atomics take float, int, unsigned and unsigned long long");
    atomicAdd(&element, value);
}

/// Leaves the larger of the two, and returns what was there before. int, unsigned or unsigned long long.
template <Order order = Order::relaxed, class T>
__device__ __forceinline__ T atomic_max(T& element, std::type_identity_t<T> value) {
    static_assert(kHasIntegerAtomics<T>, "of integers");
    if constexpr (order == Order::relaxed) return atomicMax(&element, value);
    T old;
    if constexpr (std::is_same_v<T, int>)
        SIMT_ATOM("max.s32", "r");
    else if constexpr (sizeof(T) == 8)
        SIMT_ATOM("max.u64", "l");
    else
        SIMT_ATOM("max.u32", "r");
    return old;
}

/// Leaves the smaller of the two, and returns what was there before. int, unsigned or unsigned long long.
template <Order order = Order::relaxed, class T>
__device__ __forceinline__ T atomic_min(T& element, std::type_identity_t<T> value) {
    static_assert(kHasIntegerAtomics<T>, "of integers");
    if constexpr (order == Order::relaxed) return atomicMin(&element, value);
    T old;
    if constexpr (std::is_same_v<T, int>)
        SIMT_ATOM("min.s32", "r");
    else if constexpr (sizeof(T) == 8)
        SIMT_ATOM("min.u64", "l");
    else
        SIMT_ATOM("min.u32", "r");
    return old;
}

/// Leaves `value`, and returns what was there before. float, int, unsigned or unsigned long long.
template <Order order = Order::relaxed, class T>
__device__ __forceinline__ T atomic_exchange(T& element, std::type_identity_t<T> value) {
    static_assert(kHasAtomics<T>, "atomics take float, int, unsigned and unsigned long long");
    if constexpr (order == Order::relaxed) return atomicExch(&element, value);
    T old;
    if constexpr (std::is_same_v<T, float>)
        SIMT_ATOM("exch.b32", "f");
    else if constexpr (sizeof(T) == 8)
        SIMT_ATOM("exch.b64", "l");
    else
        SIMT_ATOM("exch.b32", "r");
    return old;
}

#undef SIMT_ATOM

// clang-format off
#define SIMT_CAS(order, bits, constraint)                                                                              \
    asm volatile("atom." order ".gpu.cas." bits " %0, [%1], %2, %3;"                                                   \
                 : "=" constraint(old) : "l"(&element), constraint(expected), constraint(value) : "memory")
// clang-format on

/// Leaves `value` if `expected` was there, and returns what was there before. int, unsigned or unsigned long long.
template <Order order = Order::relaxed, class T>
__device__ __forceinline__ T atomic_compare_exchange(T& element, std::type_identity_t<T> expected,
                                                     std::type_identity_t<T> value) {
    static_assert(kHasIntegerAtomics<T>, "of integers");
    constexpr bool wide = sizeof(T) == 8;
    T old;
    if constexpr (order == Order::relaxed)
        old = atomicCAS(&element, expected, value);
    else if constexpr (order == Order::acquire && wide)
        SIMT_CAS("acquire", "b64", "l");
    else if constexpr (order == Order::acquire)
        SIMT_CAS("acquire", "b32", "r");
    else if constexpr (order == Order::release && wide)
        SIMT_CAS("release", "b64", "l");
    else if constexpr (order == Order::release)
        SIMT_CAS("release", "b32", "r");
    else if constexpr (wide)
        SIMT_CAS("acq_rel", "b64", "l");
    else
        SIMT_CAS("acq_rel", "b32", "r");
    return old;
}

#undef SIMT_CAS

/// Reads atomically. What follows in the thread lies after what was released with this value.
template <class T>
__device__ __forceinline__ T load_acquire(const T& element) {
    static_assert(kHasAtomics<T>, "atomics take float, int, unsigned and unsigned long long");
    T value;
    if constexpr (std::is_same_v<T, float>)
        asm volatile("ld.acquire.gpu.f32 %0, [%1];" : "=f"(value) : "l"(&element) : "memory");
    else if constexpr (sizeof(T) == 8)
        asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(value) : "l"(&element) : "memory");
    else
        asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(&element) : "memory");
    return value;
}

/// Reads atomically, and orders nothing.
template <class T>
__device__ __forceinline__ T load_relaxed(const T& element) {
    static_assert(kHasAtomics<T>, "atomics take float, int, unsigned and unsigned long long");
    T value;
    if constexpr (std::is_same_v<T, float>)
        asm volatile("ld.relaxed.gpu.f32 %0, [%1];" : "=f"(value) : "l"(&element) : "memory");
    else if constexpr (sizeof(T) == 8)
        asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(value) : "l"(&element) : "memory");
    else
        asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(value) : "l"(&element) : "memory");
    return value;
}

/// Writes atomically. What the thread did and knew before is released with the value.
template <class T>
__device__ __forceinline__ void store_release(T& element, std::type_identity_t<T> value) {
    static_assert(kHasAtomics<T>, "atomics take float, int, unsigned and unsigned long long");
    if constexpr (std::is_same_v<T, float>)
        asm volatile("st.release.gpu.f32 [%0], %1;" ::"l"(&element), "f"(value) : "memory");
    else if constexpr (sizeof(T) == 8)
        asm volatile("st.release.gpu.u64 [%0], %1;" ::"l"(&element), "l"(value) : "memory");
    else
        asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(&element), "r"(value) : "memory");
}

/// Writes atomically, and orders nothing.
template <class T>
__device__ __forceinline__ void store_relaxed(T& element, std::type_identity_t<T> value) {
    static_assert(kHasAtomics<T>, "atomics take float, int, unsigned and unsigned long long");
    if constexpr (std::is_same_v<T, float>)
        asm volatile("st.relaxed.gpu.f32 [%0], %1;" ::"l"(&element), "f"(value) : "memory");
    else if constexpr (sizeof(T) == 8)
        asm volatile("st.relaxed.gpu.u64 [%0], %1;" ::"l"(&element), "l"(value) : "memory");
    else
        asm volatile("st.relaxed.gpu.u32 [%0], %1;" ::"l"(&element), "r"(value) : "memory");
}

}  // namespace cuda
}  // namespace simt
