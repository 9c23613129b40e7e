#pragma once

#include <cstddef>
#include <cstdint>

#include "common/simt/machine/block.h"

namespace simt {
inline namespace unchecked {

inline void* arena_bytes(std::size_t offset, std::size_t bytes) { return Block::current().arena_bytes(offset, bytes); }

/// Where something lies in shared memory, as a number to compute with.
using Position = std::uintptr_t;
inline Position position_of(const void* object) { return reinterpret_cast<Position>(object); }
inline void* at_position(Position position) { return reinterpret_cast<void*>(position); }

}  // namespace unchecked
}  // namespace simt

#include "common/simt/views/bare_views.h"
#include "common/simt/views/bare_watch.h"
