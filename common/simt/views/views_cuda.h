#pragma once

#include <cstddef>

namespace simt {
inline namespace cuda {

/// `bytes` of the block's shared memory, from `offset` on.
__device__ __forceinline__ void* arena_bytes(unsigned offset, std::size_t) {
    extern __shared__ __align__(1024) unsigned char simt_shared_memory[];
    return simt_shared_memory + offset;
}

}  // namespace cuda
}  // namespace simt

#include "common/simt/views/bare_views.h"
#include "common/simt/views/bare_watch.h"
