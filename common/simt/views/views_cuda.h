#pragma once

#include <cstddef>
#include <cstdint>

namespace simt {
inline namespace cuda {

/// `bytes` of the block's shared memory, from `offset` on.
__device__ __forceinline__ void* arena_bytes(unsigned offset, std::size_t) {
    extern __shared__ __align__(1024) unsigned char simt_shared_memory[];
    return simt_shared_memory + offset;
}

/// Where something lies in shared memory, as a number to compute with.
using Position = std::uint32_t;
__device__ __forceinline__ Position position_of(const void* object) {
    return static_cast<Position>(__cvta_generic_to_shared(object));
}
__device__ __forceinline__ void* at_position(Position position) { return __cvta_shared_to_generic(position); }

}  // namespace cuda
}  // namespace simt

#include "common/simt/views/bare_views.h"
#include "common/simt/views/bare_watch.h"
