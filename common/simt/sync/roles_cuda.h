#pragma once

#include <cstdint>

#include "common/simt/device/architecture_cuda.h"

// What a kernel needs whose warps have different tasks: one that fetches, others that multiply.

namespace simt {
inline namespace cuda {

/// True in one lane of the warp, all of whose lanes call it: for instructions that one thread issues. Where
/// `threadIdx.x
/// == 0` would do as well, ptxas builds a loop over the lanes around each such instruction; around these it knows that
/// it is one. (PTX ISA, elect.sync.)
__device__ __forceinline__ bool elect_one() {
    unsigned elected = 0;
    if constexpr (kHasFeature<Feature::tma>)
        asm volatile(
            "{\n"
            ".reg .pred elected;\n"
            "elect.sync _|elected, 0xffffffff;\n"
            "selp.u32 %0, 1, 0, elected;\n"
            "}"
            : "=r"(elected));
    else
        refuse("elect.sync: not in the architecture that this kernel was compiled for");
    return elected != 0;
}

/// `value`, which is the same in all lanes of the warp; all of them call it. The compiler cannot know that of what was
/// computed from threadIdx.x, such as the number of a warpgroup. Of what comes from here it does, and keeps what
/// follows (descriptors, addresses of barriers) in registers that a warp has once.
__device__ __forceinline__ int same_in_warp(int value) { return __shfl_sync(0xffffffffu, value, 0); }

/// Gives back registers: from now on a thread of this warpgroup has `count`, a multiple of 8 from 24 to 256. All four
/// warps of the warpgroup call it, with the same count, no higher than what they have. The kernel must say how many
/// threads its blocks have (__launch_bounds__(threads, 1)), and each role is one branch of one `if`, or ptxas ignores
/// it (C7508). (PTX ISA, setmaxnreg.)
template <int count>
__device__ __forceinline__ void release_registers() {
    static_assert(count % 8 == 0 && 24 <= count && count <= 256);
    if constexpr (kHasFeature<Feature::wgmma>)
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(count));
    else
        refuse("setmaxnreg: not in the architecture that this kernel was compiled for");
}

/// Takes registers that others gave back, and waits until they have. As release_registers() otherwise; no lower than
/// what they have.
template <int count>
__device__ __forceinline__ void claim_registers() {
    static_assert(count % 8 == 0 && 24 <= count && count <= 256);
    if constexpr (kHasFeature<Feature::wgmma>)
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(count));
    else
        refuse("setmaxnreg: not in the architecture that this kernel was compiled for");
}

/// Ordinary stores to shared memory, this thread's and those that it knows of through a barrier, become visible to what
/// reads shared memory by a way of its own, the async proxy: the tensor memory accelerator and wgmma. Each thread that
/// stored calls it, then a barrier, then someone issues the instruction that reads. It costs a wait for all of the
/// thread's stores: once a tile, not once a store. (PTX ISA, "Async proxy"; fence.proxy.async.)
__device__ __forceinline__ void show_to_async() {
    if constexpr (kHasFeature<Feature::tma>)
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    else
        refuse("fence.proxy.async: not in the architecture that this kernel was compiled for");
}

/// The same for ordinary stores and atomic accesses to global memory, which tma_load(), tma_store(), tma_add() and the
/// bulk copies then find. It may stand in the thread that stored, or in the one that sets off the copy, behind the
/// barrier or the acquire that orders the two. A launch's end does without, and so does what a bulk store wrote: the
/// wait for it shows that to everybody. (PTX ISA, "Async proxy"; fence.proxy.async.global.)
__device__ __forceinline__ void show_global_to_async() {
    if constexpr (kHasFeature<Feature::tma>)
        asm volatile("fence.proxy.async.global;" ::: "memory");
    else
        refuse("fence.proxy.async: not in the architecture that this kernel was compiled for");
}

/// Both at once. (PTX ISA, fence.proxy.async.)
__device__ __forceinline__ void show_all_to_async() {
    if constexpr (kHasFeature<Feature::tma>)
        asm volatile("fence.proxy.async;" ::: "memory");
    else
        refuse("fence.proxy.async: not in the architecture that this kernel was compiled for");
}

/// Whatever `sum` needs is computed before the next wait_products(). ptxas moves that wait up, above all arithmetic
/// that stands before it, and the arithmetic is then no longer done while the products are. It does not move it above a
/// store to memory, such as this one, which nobody ever executes: sum must not be below zero.
__device__ __forceinline__ void finish_before_wait(float sum) {
    extern __shared__ __align__(1024) unsigned char simt_shared_memory[];
    asm volatile(
        "{\n"
        ".reg .pred never;\n"
        "setp.lt.f32 never, %0, 0f00000000;\n"
        "@never st.shared.f32 [%1], %0;\n"
        "}"
        :
        : "f"(sum), "r"(shared_address(simt_shared_memory))
        : "memory");
}

}  // namespace cuda
}  // namespace simt
