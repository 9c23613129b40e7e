#pragma once

#include <cstddef>
#include <type_traits>

#include "common/simt/memory/atomic_board.h"
#include "common/simt/sync/memory_order.h"
#include "common/simt/views/views_cpu.h"

namespace simt {
inline namespace cpu {

/// Where an atomic access goes.
struct AtomicPlace {
    bool is_shared;
    int tensor;  ///< of global memory
    const void* address;
    std::size_t bytes;
    SourceSite site;
};

inline AtomicPlace place_of(const void* p, std::size_t bytes, const SharedAccess& memory) {
    return {true, -1, p, bytes, memory.site};
}
inline AtomicPlace place_of(const void* p, std::size_t bytes, const GlobalAccess& memory) {
    return {false, memory.tensor, p, bytes, memory.site};
}

/// Does it to the element, and says whether that has changed it.
using AtomicOperation = bool (*)(void* element, void* argument);

/// The running thread makes an atomic access: checked, alone, and with what it puts in order.
void access_atomically(const AtomicPlace& place, const AtomicUse& use, AtomicOperation operation, void* argument);

/// A fence of the running thread.
void fence_memory(FenceScope scope, SourceSite site);

}  // namespace cpu
}  // namespace simt
