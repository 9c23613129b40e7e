#include "common/simt/sync/atomic_access.h"

#include <algorithm>
#include <cstring>

#include "common/simt/machine/block.h"
#include "common/simt/memory/tensor_names.h"
#include "common/simt/sync/traced_flags.h"

namespace simt {
inline namespace cpu {
namespace {

/// What the running thread does from now on lies in a new interval of its warp, and the block has clocks: so what it
/// did before can be told from what follows.
void begin_interval(Block& block) {
    block.need_clocks();
    block.begin_interval();
    block.global.begin_to_list();
}

Moment now(const Block& block) { return block.global.moment(block.thread(), block.warp_interval()); }

/// The posts beside a block's shared memory. They may tell of other blocks, too.
class SharedBoard final : public Companion {
  public:
    explicit SharedBoard(Block&) {}
    static std::unique_ptr<Companion> make(Block& block) { return std::make_unique<SharedBoard>(block); }
    void start_block(int) override { board.clear(); }
    void thread_returns() override {}
    void thread_touches(const char*, std::size_t, int, SourceSite) const override {}

    AtomicBoard board;
};

}  // namespace

void access_atomically(const AtomicPlace& place, const AtomicUse& use, AtomicOperation operation, void* argument) {
    Block& block = Block::current();
    if (use.releases) begin_interval(block);
    const int thread = block.thread();
    const std::uint32_t interval = block.warp_interval();
    const std::size_t offset = place.is_shared ? block.shared.offset_of(place.address) : 0;
    if (place.is_shared) {
        block.traffic.shared(use.modifies, offset, place.bytes, thread, place.site);
        block.shared.access_atomically(use.reads, use.modifies,
                                       SharedMemory::elements_of(offset, place.bytes, place.bytes), thread, interval,
                                       place.site);
    } else {
        if (use.reads && use.modifies)
            block.traffic.global_update(use.combines, place.tensor, place.address, place.bytes, thread, place.site);
        else
            block.traffic.global(use.modifies, place.tensor, place.address, place.bytes, thread, place.site);
        block.global.begin_atomic(use, place.tensor, place.address, place.bytes, thread, interval, place.site);
    }

    HandOver& hand_over = block.global.hand_over();
    KnowledgePtr published;
    if (use.modifies)
        published = block.global.with_cluster(
            now(block), hand_over.published(now(block), use.releases, block.shared.block_interval()));
    AtomicBoard& board = place.is_shared ? block.companion<SharedBoard>().board : block.global.launch().board();
    void* const element = const_cast<void*>(place.address);
    void* const memory = place.is_shared ? element : memory_behind(place.tensor, element);
    (void)*static_cast<const volatile char*>(memory);  // a stray pointer is found out before the board is locked
    const std::uint64_t self = block.global.block() * SharedMemory::kMostThreads + std::uint64_t(thread) + 1;
    std::uint64_t before = 0;
    bool changed = false;
    const AtomicBoard::Post found = board.access(reinterpret_cast<std::uintptr_t>(element), self, use, published, [&] {
        std::memcpy(&before, memory, std::min(place.bytes, sizeof before));
        return changed = operation(memory, argument);
    });
    const KnowledgePtr released_here =
        use.reads ? hand_over.released_here(reinterpret_cast<std::uintptr_t>(element), found.last_store) : nullptr;
    if (changed) {
        block.note_change();
        hand_over.note_write(now(block), reinterpret_cast<std::uintptr_t>(element), found.number, found.last_store,
                             use.reads, use.releases, published);
    }
    if (!place.is_shared) {
        block.global.end_atomic(use, place.tensor, place.address, place.bytes, thread, interval, place.site,
                                found.number);
        board.note({block.global.block(), thread, place.site, reinterpret_cast<std::uintptr_t>(element), place.tensor,
                    use, published != nullptr, use.reads && use.acquires,
                    use.modifies ? hand_over.fence_in_block_of(thread) : SourceSite{}});
    }
    if (!place.is_shared && block.events()) trace_flag(block, place, use, found, changed && published);
    if (!use.reads) return;
    if (found.released || released_here) {
        block.global.begin_to_list();
        hand_over.take(now(block), found.released, released_here, use.acquires, block.global.clocks());
    }
    block.note_find({element, place.is_shared ? Block::LookedAt::kShared : place.tensor, place.site}, before);
}

void fence_memory(FenceScope scope, SourceSite site) {
    Block& block = Block::current();
    begin_interval(block);
    AtomicBoard& board = block.global.launch().board();
    HandOver& hand_over = block.global.hand_over();
    if (scope == FenceScope::block) {
        board.note_narrow_fence(block.global.block(), block.thread(), site);
        hand_over.fence_in_block(now(block), block.shared.block_interval(), block.global.clocks(), site);
    } else {
        board.note_fence(block.global.block(), block.thread());
        hand_over.fence(now(block), block.shared.block_interval(), block.global.clocks());
    }
}

}  // namespace cpu
}  // namespace simt
