#pragma once

#include <cstddef>

#include "common/simt/machine/block.h"

namespace simt {
inline namespace unchecked {

inline void* arena_bytes(std::size_t offset, std::size_t bytes) { return Block::current().arena_bytes(offset, bytes); }

}  // namespace unchecked
}  // namespace simt

#include "common/simt/views/bare_views.h"
#include "common/simt/views/bare_watch.h"
