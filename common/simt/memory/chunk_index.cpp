#include "common/simt/memory/chunk_index.h"

#include <algorithm>

namespace simt {
inline namespace cpu {

ChunkIndex::ChunkIndex() : slots_(256), shift_(64 - 8) {}
ChunkIndex::~ChunkIndex() = default;

void ChunkIndex::clear() {
    used_ = 0;
    if (++generation_ != 0) return;
    std::ranges::fill(slots_, Slot{});
    generation_ = 1;
}

void ChunkIndex::grow() {
    std::vector<Slot> before(4 * slots_.size());
    before.swap(slots_);
    shift_ -= 2;
    used_ = 0;
    for (const Slot& slot : before)
        if (slot.generation == generation_) find_or_add(slot.address, slot.number);
}

}  // namespace cpu
}  // namespace simt
