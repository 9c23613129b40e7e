#pragma once

#include <cstdint>

#include "common/simt/device/architecture_cuda.h"
#include "common/simt/sync/ring_position.h"

// Barriers that lie in shared memory (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier").
// A barrier goes through phases. A phase is over when as many arrivals have come as init() was told, and as many bytes
// as were announced; then the next begins with the same count, and no bytes. Who waits names a phase by its parity, 0
// for the first, 1 for the second, 0 for the third: it waits while the barrier is in a phase of that parity. So nobody
// may fall two phases behind.
//
// They need Feature::mbarrier; bytes that are announced, Feature::tma.
//
// What a thread did before it arrived (release) is visible to whoever has waited for that phase (acquire), as are the
// bytes that the tensor memory accelerator brought. That is all that is ordered: nothing for those who did not wait.
//
//     const auto full = arena.barriers<Stages>("K full");
//     if (threadIdx.x == 0) {
//         for (int s = 0; s < Stages; ++s) full[s].init(1);
//         simt::publish_barriers();      // before anyone, the accelerator too, uses them
//     }
//     __syncthreads();
//
//     full[s].arrive_expecting(bytes);   // the producer: its one arrival, and so many bytes are to come
//     simt::tma_load(K_j, K_map, {b, h, key, 0}, full[s]);
//
//     full[s].wait(parity);              // consumers: they are there

namespace simt {
inline namespace cuda {

/// What a kernel says on a device that lacks them.
inline constexpr const char* kNoBarriers = "mbarrier: not in the architecture that this kernel was compiled for";

/// One barrier, by its address: pass it by value.
class Mbarrier {
  public:
    /// The one that lies there in shared memory.
    __device__ __forceinline__ explicit Mbarrier(std::uint32_t address) : address_(address) {}

    /// Makes it: from now on, `count` arrivals complete a phase. By one thread; a __syncthreads() follows, and before
    /// it publish_barriers(), where the tensor memory accelerator or other blocks use it.
    __device__ __forceinline__ void init(int count) const {
        if constexpr (kHasFeature<Feature::mbarrier>)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(address_), "r"(count) : "memory");
        else
            refuse(kNoBarriers);
    }

    /// One arrival: what this thread did before is done (release).
    __device__ __forceinline__ void arrive() const {
        if constexpr (kHasFeature<Feature::mbarrier>)
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(address_) : "memory");
        else
            refuse(kNoBarriers);
    }

    /// One arrival, and `bytes` more that must come before the phase is over.
    __device__ __forceinline__ void arrive_expecting(int bytes) const {
        if constexpr (kHasFeature<Feature::tma>)
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                         :
                         : "r"(address_), "r"(bytes)
                         : "memory");
        else
            refuse(kNoBarriers);
    }

    /// `bytes` more that must come before the phase is over, without an arrival.
    __device__ __forceinline__ void expect(int bytes) const {
        if constexpr (kHasFeature<Feature::tma>)
            asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;"
                         :
                         : "r"(address_), "r"(bytes)
                         : "memory");
        else
            refuse(kNoBarriers);
    }

    /// Whether the phase of this parity is over (acquire, if it is). From sm_90 on the hardware may put the thread to
    /// sleep for a while before it says no.
    __device__ __forceinline__ bool is_over(unsigned parity) const {
        unsigned over = 0;
        if constexpr (kHasFeature<Feature::tma>)
            asm volatile(
                "{\n"
                ".reg .pred over;\n"
                "mbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\n"
                "selp.u32 %0, 1, 0, over;\n"
                "}"
                : "=r"(over)
                : "r"(address_), "r"(parity)
                : "memory");
        else if constexpr (kHasFeature<Feature::mbarrier>)
            asm volatile(
                "{\n"
                ".reg .pred over;\n"
                "mbarrier.test_wait.parity.shared::cta.b64 over, [%1], %2;\n"
                "selp.u32 %0, 1, 0, over;\n"
                "}"
                : "=r"(over)
                : "r"(address_), "r"(parity)
                : "memory");
        else
            refuse(kNoBarriers);
        return over != 0;
    }

    /// Waits until it is.
    __device__ __forceinline__ void wait(unsigned parity) const {
        if constexpr (kHasFeature<Feature::tma>)
            asm volatile(
                "{\n"
                ".reg .pred over;\n"
                "again:\n"
                "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                "@over bra.uni done;\n"
                "bra.uni again;\n"
                "done:\n"
                "}"
                :
                : "r"(address_), "r"(parity)
                : "memory");
        else if constexpr (kHasFeature<Feature::mbarrier>)
            while (!is_over(parity)) {
            }
        else
            refuse(kNoBarriers);
    }

    /// As wait(), where threads of other blocks of the cluster arrive: what they did before is visible, too (acquire at
    /// the scope of the cluster; wait() has that of the block). For bytes that came by TMA wait() is enough.
    __device__ __forceinline__ void wait_in_cluster(unsigned parity) const {
        if constexpr (kHasFeature<Feature::cluster>)
            asm volatile(
                "{\n"
                ".reg .pred over;\n"
                "again:\n"
                "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 over, [%0], %1;\n"
                "@over bra.uni done;\n"
                "bra.uni again;\n"
                "done:\n"
                "}"
                :
                : "r"(address_), "r"(parity)
                : "memory");
        else
            refuse(kNoBarriers);
    }

    /// Ends its life, so that its bytes may be used for something else. Nobody may be waiting or on the way.
    __device__ __forceinline__ void invalidate() const {
        if constexpr (kHasFeature<Feature::mbarrier>)
            asm volatile("mbarrier.inval.shared::cta.b64 [%0];" : : "r"(address_) : "memory");
        else
            refuse(kNoBarriers);
    }

    /// Where it lies in shared memory.
    __device__ __forceinline__ std::uint32_t address() const { return address_; }

  private:
    std::uint32_t address_;
};

/// Count barriers side by side: SharedArena::barriers<Count>("name").
template <int Count>
class SharedBarriers {
  public:
    /// Those from there on; the arena makes them.
    __device__ __forceinline__ explicit SharedBarriers(const void* first) : first_(shared_address(first)) {}
    /// Barrier i.
    __device__ __forceinline__ Mbarrier operator[](int i) const { return Mbarrier(first_ + unsigned(i) * 8); }
    /// How many there are.
    __host__ __device__ static constexpr int count() { return Count; }

  private:
    std::uint32_t first_;
};

/// Makes barriers that this thread has just initialised known to the tensor memory accelerator and to other blocks of
/// the cluster; a __syncthreads() makes them known to the block's threads. (PTX ISA, fence.mbarrier_init.)
__device__ __forceinline__ void publish_barriers() {
    if constexpr (kHasFeature<Feature::tma>)
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    else
        refuse(kNoBarriers);
}

}  // namespace cuda
}  // namespace simt
