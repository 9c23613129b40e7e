#pragma once

#include <type_traits>
#include <utility>

#include "common/simt/copies/reuse.h"
#include "common/simt/views/views_cpu.h"

// See common/simt/copies/cached_access_cuda.h. There is no cache here to tell.

namespace simt {
inline namespace cpu {

template <Reuse, class V>
std::remove_const_t<V> read(Ref<V, GlobalAccess>&& source) {
    static_assert(sizeof(V) == 16);
    return std::move(source);
}

template <Reuse reuse, class V>
void write(Ref<V, GlobalAccess>&& destination, const V& value) {
    static_assert(sizeof(V) == 16 && reuse != Reuse::soon);
    std::move(destination) = value;
}

}  // namespace cpu
}  // namespace simt
