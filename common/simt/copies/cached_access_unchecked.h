#pragma once

#include "common/simt/copies/reuse.h"

// See common/simt/copies/cached_access_cuda.h. There is no cache here to tell.

namespace simt {
inline namespace unchecked {

template <Reuse, class V>
V read(const V& source) {
    static_assert(sizeof(V) == 16);
    return source;
}

template <Reuse reuse, class V>
void write(V& destination, const V& value) {
    static_assert(sizeof(V) == 16 && reuse != Reuse::soon);
    destination = value;
}

}  // namespace unchecked
}  // namespace simt
