#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/simt/memory/atomic_board.h"
#include "common/simt/memory/chunk_index.h"
#include "common/simt/memory/cluster_knowledge.h"
#include "common/simt/memory/global_launch.h"
#include "common/simt/memory/global_memory.h"
#include "common/simt/memory/global_sums.h"
#include "common/simt/memory/hand_over.h"
#include "common/simt/memory/listed_access.h"
#include "common/simt/memory/reader_list.h"
#include "common/simt/memory/tensor_names.h"
#include "common/simt/memory/thread_clocks.h"
#include "common/simt/report/fault_handler.h"
#include "common/simt/report/source_site.h"

namespace simt {
inline namespace cpu {

/// What the running block of one worker does to global memory. Inside a block the rules of shared memory hold: see
/// SharedMemory for intervals. Memory that kernels only read costs two comparisons an access.
class GlobalShadow {
  public:
    explicit GlobalShadow(FaultHandler& faults);
    ~GlobalShadow();

    void start_block(GlobalLaunchShadow& launch, std::uint64_t block);

    /// Tells the launch what the block did, also when it ends early.
    void end_block();

    void open_block_interval();

    /// As SharedMemory's: whose accesses follow, and who knows the order of what intervals leave open.
    void enter_warp(std::uint32_t since) { since_ = since; }
    void order_by(ThreadClocks& clocks, std::uint32_t before_clocks) {
        clocks_ = &clocks;
        before_clocks_ = before_clocks;
        is_plain_ = false;
    }

    /// The thread waits for the launches before this one, where they may still run.
    void wait_for_previous_launch(int thread) { waited_.set(std::size_t(thread)); }

    /// The thread lets the launch after this one start, as far as this block is concerned.
    void let_next_launch_start(int thread) { lets_next_start_unwaited_ |= !waited_[std::size_t(thread)]; }

    void access(bool write, int tensor, const void* p, std::size_t bytes, int thread, std::uint32_t warp_interval,
                SourceSite site) {
        const auto address = reinterpret_cast<std::uintptr_t>(p);
        if (address - known_[tensor].begin >= known_[tensor].bytes) [[unlikely]]
            look_up(tensor, address);
        const GlobalRegion* const region = known_[tensor].region;
        if (region && launch_->starts_early() && !waited_[std::size_t(thread)]) [[unlikely]]
            look_back(write, address, bytes, {thread, tensor, site});
        if (region) touch(write, *region, address, bytes, {thread, tensor, site}, warp_interval);
    }

    /// An atomic access begins: checks what it meets in this block.
    void begin_atomic(const AtomicUse& use, int tensor, const void* p, std::size_t bytes, int thread,
                      std::uint32_t warp_interval, SourceSite site);

    /// It has taken place, as number `number` of its element.
    void end_atomic(const AtomicUse& use, int tensor, const void* p, std::size_t bytes, int thread,
                    std::uint32_t warp_interval, SourceSite site, std::uint64_t number);

    /// How threads of this block hand over to others, and take over from them.
    HandOver& hand_over() { return hand_over_; }

    /// The block is one of a cluster, whose clocks tell what it knows of the others: see ClusterKnowledge.
    void join_cluster(std::vector<std::uint64_t> numbers, int rank, int threads);
    /// What is published besides: what the thread knows by its cluster.
    KnowledgePtr with_cluster(const Moment& now, const KnowledgePtr& published) {
        return published && cluster_.is_of_cluster() ? joined(published, known_at(now)) : published;
    }
    Moment moment(int thread, std::uint32_t warp_interval) const {
        return {thread, warp_interval, since_, block_interval_, clocks_};
    }
    ThreadClocks* clocks() const { return clocks_; }
    GlobalLaunchShadow& launch() const { return *launch_; }
    std::uint64_t block() const { return block_; }

    /// From now on each access is listed: it may lie before or after what another block does, or be atomic.
    void begin_to_list();

    /// Where release_source() finds a source that it is to release.
    using HeldSource = std::uint32_t;

    /// An asynchronous copy of the thread reads these bytes from now until release_source(): whoever writes them in
    /// between, the thread itself too, is wrong.
    HeldSource hold_source(int tensor, const void* p, std::size_t bytes, int thread, SourceSite site);

    /// The thread has waited, at `site`, for the copy: that is its last read of the bytes.
    void release_source(HeldSource source, std::uint32_t warp_interval, SourceSite site);

    /// What a copy does that the thread sets off and that goes on by itself: see ThreadClocks.
    enum class Bulk : std::uint8_t { read, write, add };

    /// What access() does, for any number of bytes.
    void access_in_bulk(Bulk how, int tensor, const void* p, std::size_t bytes, int thread, std::uint32_t warp_interval,
                        SourceSite site);

    /// Such a copy has read its source, which was held: an agent did so, in this interval.
    void release_source_of_agent(HeldSource source, int agent, std::uint32_t interval);

    /// Such a copy writes these bytes from now until release_target(), or until the block ends: whoever touches them in
    /// between is wrong, unless all only add.
    HeldSource hold_target(int tensor, const void* p, std::size_t bytes, int thread, SourceSite site);

    /// The thread has waited, at `site`, for the copy: only now are the bytes written for sure.
    void release_target(HeldSource target, std::uint32_t warp_interval, SourceSite site);

    /// Adds to global memory, for kernels whose accesses are not watched as well: see GlobalSums.
    void add(void* to, const void* values, std::size_t count, std::size_t bytes, GlobalSums::Add how) {
        sums_.add(to, values, count, bytes, how);
    }

  private:
    enum class Readers : std::uint8_t { one_thread, one_warp, several_warps };

    struct Cell {
        std::uint32_t write_interval = 0, write_warp_interval = 0;
        std::uint32_t read_interval = 0, read_warp_interval = 0;
        std::uint32_t copies = 0;  // asynchronous ones under way that read it
        std::uint16_t writer = 0, reader = 0, other_reader = 0;
        Readers readers = Readers::one_thread;
        std::uint8_t write_tensor = 0, read_tensor = 0;
        std::uint8_t adds = 0;     // kLastAdds, kOnlyAdds, kByAgent
        std::uint16_t stores = 0;  // bulk ones under way that write it
        SourceSite write_site, read_site, other_read_site;
    };
    static_assert(kMaxTensorNames <= 256);
    // The last write was an addition; all were; the last one was a bulk copy's.
    static constexpr std::uint8_t kLastAdds = 1, kOnlyAdds = 2, kByAgent = 4;

    /// A block touches few of the cells that a launch does, so they are gathered in chunks as it meets them.
    static constexpr std::size_t kChunkCells = 128;
    struct Chunk {
        const GlobalRegion* region;
        std::size_t first_cell;
        std::array<Cell, kChunkCells> cells;
    };

    static constexpr std::size_t kWidestAccess = 16;  // bytes
    /// The region that the last access through a tensor began in, or the gap between two of them: then `region` is
    /// null. Or one byte so close before a region that a vector may reach into it from there.
    struct Known {
        std::uintptr_t begin = 0, bytes = 0;
        const GlobalRegion* region = nullptr;
    };

    /// What an asynchronous copy reads while it is under way, where kernels may write.
    struct Source {
        const GlobalRegion* region;  // null: of no copy
        std::uintptr_t address;
        std::size_t bytes;
        GlobalAccessRecord reader;  // or writer
        bool written = false;       // the target of a store
    };
    static constexpr HeldSource kUnwatched = UINT32_MAX;

    template <class Use>
    void for_each_cell(const Source& source, Use use);
    HeldSource hold(bool write, int tensor, const void* p, std::size_t bytes, int thread, SourceSite site);
    Source let_go(HeldSource place);
    void make_own_additions(Cell& c);

    void look_up(int tensor, std::uintptr_t address);
    [[gnu::cold, gnu::noinline]] void look_back(bool write, std::uintptr_t address, std::size_t bytes,
                                                const GlobalAccessRecord& access) const;
    void touch(bool write, const GlobalRegion& region, std::uintptr_t address, std::size_t bytes,
               const GlobalAccessRecord& access, std::uint32_t warp_interval);
    void touch_cell(bool write, const GlobalRegion& region, std::size_t cell, Cell& c, const GlobalAccessRecord& access,
                    std::uint32_t warp_interval);
    Chunk& chunk_of(const GlobalRegion& region, std::size_t cell);
    /// `plain`: see is_plain_.
    template <bool plain>
    void read_cell(Cell& c, std::uintptr_t address, const GlobalAccessRecord& access, std::uint32_t warp_interval);
    template <bool plain>
    void write_cell(Cell& c, std::uintptr_t address, const GlobalAccessRecord& access, std::uint32_t warp_interval);
    void note_read(Cell& c, std::uintptr_t address, const GlobalAccessRecord& access, std::uint32_t warp_interval);
    static bool same_warp(int a, int b) { return a / 32 == b / 32; }
    [[gnu::always_inline]] bool write_races_with(const Cell& c, int thread) const {
        return c.write_interval == block_interval_ && c.writer != thread &&
               !(same_warp(c.writer, thread) && c.write_warp_interval < since_) &&
               !(clocks_ && c.writer != kAtomics && clocks_->knows(thread, c.writer, c.write_warp_interval));
    }
    void meet_readers_inline(const Cell& c, const char* does, std::uintptr_t address, const GlobalAccessRecord& access);
    void meet_readers(const Cell& c, const char* does, std::uintptr_t address, const GlobalAccessRecord& access);
    [[gnu::always_inline]] bool noted_read_races_with(const Cell& c, int thread) const {
        if (c.read_interval != block_interval_) return false;
        const bool ordered = same_warp(c.reader, thread) && c.read_warp_interval < since_;
        return c.readers == Readers::several_warps ||
               (!ordered && (c.readers == Readers::one_warp || c.reader != thread));
    }
    int noted_reader_unknown_to(const Cell& c, int thread) const;
    bool written_here(const Cell& c) const { return c.write_interval >= first_interval_; }

    /// Beside a cell that was accessed atomically. As long as nobody has touched it otherwise since, the cell says that
    /// kAtomics wrote it, and the last one who really did stands here.
    struct AtomicNote {
        using allocator_type = std::pmr::polymorphic_allocator<>;
        explicit AtomicNote(const allocator_type& memory);
        ~AtomicNote();
        AtomicNote(const AtomicNote&) = delete;
        AtomicNote& operator=(const AtomicNote&) = delete;

        std::uint32_t block_interval = 0;  // that the lists are of
        ReaderList modifiers, loaders;
        struct Look {
            int thread;
            std::uint32_t interval, block_interval;
            std::uint64_t number;
        };
        std::uintptr_t element = 0;  // of the last access: where it begins, and its width in bytes
        std::size_t width = 0;
        std::uint64_t last_change = 0;  // the number of the last one of modifiers
        struct Changes {
            int warp;
            std::array<std::uint64_t, 32> numbers;
        };
        std::pmr::vector<Changes> changes;  // by lane, the number of its last one in this interval of the block
        std::pmr::vector<Look> looks;       // atomic reads of threads, the last one in each interval
        std::uint64_t seen = 0;             // the number of the last one before the block last met
        Cell before{};

        void look(const Moment& now, std::uint64_t number);
        void change(int thread, std::uint64_t number);
        std::uint64_t last_change_of(int thread) const;
        /// Of the atomic reads that the thread comes after, the last one's number.
        std::uint64_t seen_by(const Moment& now) const;
    };
    static constexpr std::uint16_t kAtomics = UINT16_MAX;

    /// A plain access meets a cell that was accessed atomically in this interval of the block.
    [[gnu::noinline]] void meet_atomics(bool write, std::uintptr_t address, const GlobalAccessRecord& access);
    struct AtomicElement {
        std::uintptr_t address;
        std::size_t bytes;
    };
    void begin_atomic_on(Cell& c, const AtomicUse& use, const AtomicElement& element, std::uintptr_t address,
                         bool holds_value, const GlobalAccessRecord& access, std::uint32_t warp_interval);
    void meet_other_width(const AtomicNote& note, const AtomicUse& use, const AtomicElement& element,
                          const GlobalAccessRecord& access) const;

    struct Listed {
        using allocator_type = std::pmr::polymorphic_allocator<>;
        explicit Listed(const allocator_type& memory);
        ~Listed();
        Listed(const Listed&) = delete;
        Listed& operator=(const Listed&) = delete;

        const GlobalRegion* region = nullptr;
        std::size_t cell = 0;
        AccessList list;
    };
    /// `by_agent`: a bulk copy makes it.
    [[gnu::noinline]] void list(Deed deed, bool by_agent, std::uintptr_t address, const GlobalAccessRecord& access,
                                std::uint32_t warp_interval, std::uint64_t number = 0, bool looks = false);
    Listed& listed_at(std::uintptr_t address);
    bool leave_to_launch(std::uintptr_t address, const GlobalAccessRecord& reader, std::uint32_t warp_interval);
    KnowledgePtr known_at(const Moment& now);
    void forget_lists();
    void hand_in_lists();

    void check_shown(const Cell& c, const char* does, std::uintptr_t address, const GlobalAccessRecord& access) const;

    // These return while the machine is lenient.
    [[gnu::cold, gnu::noinline]] void not_shown(const char* does, std::uintptr_t address,
                                                const GlobalAccessRecord& access,
                                                const GlobalAccessRecord& writer) const;
    [[gnu::cold, gnu::noinline]] void unwritten(std::uintptr_t address, const GlobalAccessRecord& reader,
                                                std::uint32_t warp_interval);
    [[gnu::cold, gnu::noinline]] void overwrites_source(std::uintptr_t address, const GlobalAccessRecord& writer) const;
    [[gnu::cold, gnu::noinline]] void meets_store(const char* does, std::uintptr_t address,
                                                  const GlobalAccessRecord& access) const;
    const Source* holder_of(std::uintptr_t address, bool written) const;
    [[gnu::cold, gnu::noinline]] void race(const char* does, std::uintptr_t address, const GlobalAccessRecord& access,
                                           const char* did, const GlobalAccessRecord& other,
                                           bool both_update = false) const;

    FaultHandler& faults_;
    GlobalLaunchShadow* launch_ = nullptr;
    std::uint64_t launch_number_ = 0, block_ = 0;
    std::array<Known, kMaxTensorNames> known_{};
    ChunkIndex chunk_numbers_;   // by the address of their first cells
    std::vector<Chunk> chunks_;  // the first used_chunks_ belong to this block
    std::size_t used_chunks_ = 0;
    std::uintptr_t recent_key_ = 0;
    std::uint32_t recent_chunk_ = 0;
    // Intervals only grow, across blocks too: what an earlier block left in a chunk is older than first_interval_.
    std::uint32_t first_interval_ = 1, block_interval_ = 1;
    std::uint32_t since_ = 1;                        // when the lanes of the running warp last met
    ThreadClocks* clocks_ = nullptr;                 // of the block, if it has any
    std::uint32_t before_clocks_ = 0;                // the last interval of a warp before there were
    std::pmr::unsynchronized_pool_resource memory_;  // of the maps; what they took stays for the next block, as chunks_
    // Of an element, by its address, where there are clocks.
    std::pmr::unordered_map<std::uintptr_t, ReaderList> readers_;
    std::bitset<1024> waited_;  // by thread: for the launches before
    bool lets_next_start_unwaited_ = false;
    std::vector<Source> sources_;
    std::vector<HeldSource> free_sources_;  // of sources_
    std::optional<Bulk> bulk_;              // what these accesses belong to; nothing: the thread's own
    GlobalSums::Log sums_;                  // what the block has added
    HandOver hand_over_;
    /// So far the block has neither clocks nor lists nor copies: whole kernels are so, and pay for nothing else.
    bool is_plain_ = true;
    ClusterKnowledge cluster_;
    bool lists_ = false;
    std::pmr::unordered_map<std::uintptr_t, Listed> listed_;       // by the address of the cell
    std::pmr::unordered_map<std::uintptr_t, AtomicNote> atomics_;  // likewise
    std::vector<std::pair<std::uintptr_t, ListedAccess>> unwritten_;
};

template <class Use>
void GlobalShadow::for_each_cell(const Source& source, Use use) {
    const GlobalRegion& region = *source.region;
    const std::size_t last = region.cell_of(std::min(source.address + source.bytes, region.end) - 1);
    for (std::size_t cell = region.cell_of(source.address); cell <= last; ++cell)
        use(chunk_of(region, cell).cells[cell % kChunkCells], region.address_of(cell));
}

}  // namespace cpu
}  // namespace simt
