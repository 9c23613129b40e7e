#pragma once

#include <vector_types.h>
#include <cstdint>

#include "common/simt/copies/reuse.h"
#include "common/simt/device/architecture_cuda.h"

// Reads and writes of 16 bytes of global memory with a word to the L2 cache. (PTX ISA, "Cache Eviction Priority Hints"
// and createpolicy.) Anything else goes with the cache's own order: tensor.vec<Wide>(r, c), read or assigned to.

namespace simt {
inline namespace cuda {

/// How the L2 cache is to treat a stretch of memory, as instructions with `.L2::cache_hint` take it.
template <Reuse reuse>
__device__ __forceinline__ std::uint64_t cache_policy() {
    static_assert(reuse != Reuse::unknown, "no policy says: as usual");
    std::uint64_t policy;
    if constexpr (reuse == Reuse::none)
        asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    else
        asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

/// Reads one V, of 16 bytes:
///
///     const Wide scores = simt::read<Reuse::none>(x.vec<Wide>(row, column));
template <Reuse reuse, class V>
__device__ __forceinline__ V read(const V& source) {
    static_assert(sizeof(V) == 16);
    V value;
    uint4& bits = reinterpret_cast<uint4&>(value);
    if constexpr (reuse == Reuse::none) {
        bits = __ldcs(reinterpret_cast<const uint4*>(&source));
    } else if constexpr (reuse == Reuse::soon && kHasFeature<Feature::cache_hints>) {
        asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                     : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
                     : "l"(__cvta_generic_to_global(&source)), "l"(cache_policy<reuse>()));
    } else {
        value = source;
    }
    return value;
}

/// Writes one V, of 16 bytes, that this kernel does not read again:
///
///     simt::write<Reuse::none>(y.vec<Wide>(row, column), weights);
template <Reuse reuse, class V>
__device__ __forceinline__ void write(V& destination, const V& value) {
    static_assert(sizeof(V) == 16 && reuse != Reuse::soon);
    if constexpr (reuse == Reuse::none)
        __stcs(reinterpret_cast<uint4*>(&destination), reinterpret_cast<const uint4&>(value));
    else
        destination = value;
}

}  // namespace cuda
}  // namespace simt
