#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/simt/language/cuda_names.h"
#include "common/simt/memory/atomic_board.h"
#include "common/simt/memory/chunk_index.h"
#include "common/simt/memory/cluster_knowledge.h"
#include "common/simt/memory/global_memory.h"
#include "common/simt/memory/global_sums.h"
#include "common/simt/memory/hand_over.h"
#include "common/simt/memory/listed_access.h"
#include "common/simt/memory/reader_list.h"
#include "common/simt/memory/spare.h"
#include "common/simt/memory/tensor_names.h"
#include "common/simt/memory/thread_clocks.h"
#include "common/simt/report/fault_handler.h"
#include "common/simt/report/machine_error.h"
#include "common/simt/report/source_site.h"

namespace simt {
inline namespace cpu {

/// One thread's access to an element of global memory; thread -1: there was none.
struct GlobalAccessRecord {
    int thread = -1;
    int tensor = 0;
    SourceSite site{};
};

/// What one launch does to global memory, across its blocks. Nothing orders the blocks of a launch, so an element that
/// one of them writes belongs to that block alone; unless blocks hand over to each other, see HandOver.
///
/// Blocks hand in what they touched as they end, in any order and from several workers. Per cell the lowest block that
/// wrote and the two lowest that read are kept. That is enough to find, whatever the order, the conflict that would
/// have come up first had the blocks run one after another: it is the one that is reported.
///
/// Of blocks that hand over, and of atomic accesses, that is not enough: their accesses are listed, each with what the
/// thread knew of other blocks. Which of two conflicts comes first may then depend on the workers.
class GlobalLaunchShadow {
  public:
    /// Launches that may still run, the newest first.
    using Running = std::vector<std::shared_ptr<const GlobalLaunchShadow>>;

    /// `running`: launches that may not have ended when this one starts.
    GlobalLaunchShadow(const char* kernel, dim3 grid, Running running);
    GlobalLaunchShadow(const GlobalLaunchShadow&) = delete;
    GlobalLaunchShadow& operator=(const GlobalLaunchShadow&) = delete;
    ~GlobalLaunchShadow();

    /// A block's turn to say what it touched: see global_hand_in.h.
    class HandIn;

    bool has_conflict() const { return has_conflict_; }

    /// The conflict to report, if one involves no block beyond `last_block`. Call it when all workers are done.
    std::optional<MachineError::Report> conflict(std::uint64_t last_block) const;

    /// Nothing more comes. Writes of this launch count as values for the launches after it.
    void end();

    const GlobalRegions& regions() const { return regions_; }

    /// Whether launches may still run when this one starts.
    bool starts_early() const { return starts_early_; }

    /// A block of this launch has waited for those before it, and only then let the next one start or ended. The next
    /// one starts when all blocks have, so it starts after what this block has waited for.
    void note_that_next_starts_after_wait() { next_starts_after_wait_.store(true, std::memory_order_relaxed); }

    /// What may still run when a launch after `last` starts early: `last` itself, and what may still run when `last`
    /// lets its next one start.
    static Running running_after(std::shared_ptr<const GlobalLaunchShadow> last);

    /// What a kernel that starts early may not touch before it has waited: who in the launches that may still run wrote
    /// the element there, or, where `reads` count as well, read it.
    struct Claim {
        std::string kernel;
        bool wrote;
        Witness witness;
        std::size_t launches_between = 0;
    };
    std::optional<Claim> claim_of_running(std::uintptr_t address, bool reads) const;

    std::uint64_t number() const { return number_; }  ///< no two launches have the same

    GlobalSums sums;
    /// Where the atomic accesses to global memory meet.
    AtomicBoard& board() { return board_; }

  private:
    /// In one word, for there is one for every element that kernels write. Put together by hand, since the compiler
    /// masks what it puts into bit-fields.
    class Party {
      public:
        Party() = default;  ///< nobody
        Party(std::uint64_t block, std::uint64_t thread, std::uint64_t instruction)
            : bits_((block + 1) << 26 | thread << 16 | instruction) {}
        bool known() const { return bits_ != 0; }
        std::uint64_t block_after() const { return bits_ >> 26; }  ///< 1 + the block's number; 0: nobody
        int thread() const { return int(bits_ >> 16 & 0x3ff); }
        std::size_t instruction() const { return bits_ & 0xffff; }

      private:
        std::uint64_t bits_ = 0;
    };
    struct Readers {
        Party lowest, next;
    };
    /// Neighbouring cells. Most of what a launch writes it never reads: readers get a place when the first one comes.
    struct Page {
        static constexpr std::size_t kCells = 256;
        using AllReaders = std::array<Readers, kCells>;
        const GlobalRegion* region;
        std::size_t first_cell;
        std::array<Party, kCells> writers;
        std::unique_ptr<AllReaders> readers;

        Readers readers_of(std::size_t number) const { return readers ? (*readers)[number] : Readers{}; }
    };
    struct Instruction {
        SourceSite site;
        int tensor;
        friend bool operator==(const Instruction&, const Instruction&) = default;
    };

    /// What lacks where one block took over from the other, and yet this access is not in order; or is, and not shown
    /// to the asynchronous proxy, through which one of the two makes its access.
    enum class Lack : std::uint8_t { unknown, before_release, after_acquire, store_under_way, proxy_fence };
    struct Conflict {
        Party later, earlier;  // by the number of the block
        Deed later_deed, earlier_deed;
        const GlobalRegion* region;
        std::size_t cell;
        Lack lack;
        bool later_is_agent;  // where a proxy fence lacks; else the earlier one is
        bool comes_before(const Conflict& other) const;
    };

    /// Of a listed access of a block that has ended.
    struct Past {
        std::uint64_t block;
        bool hands_over;
        ListedAccess access;
    };
    struct History {
        using allocator_type = std::pmr::polymorphic_allocator<>;
        explicit History(const allocator_type& memory)
            : by_deed{Pasts(memory), Pasts(memory), Pasts(memory), Pasts(memory)} {}

        using Pasts = std::pmr::vector<Past>;
        const GlobalRegion* region = nullptr;
        std::size_t cell = 0;
        std::array<Pasts, 4> by_deed;

        bool is_written() const;
    };
    struct Unwritten {
        const GlobalRegion* region;
        std::size_t cell;
        Past read;
    };

    // A long row of launches that start early and never wait must not keep the notes of all of them.
    static constexpr std::size_t kMostRunning = 16;

    std::optional<Claim> claim(std::uintptr_t address, bool reads) const;
    std::optional<Claim> listed_claim(std::uintptr_t cell_address, bool reads) const;
    static Spare<Page>& spare_pages();
    static Spare<Page::AllReaders>& spare_readers();
    Page& page_of(const GlobalRegion& region, std::size_t cell);
    static void give_readers(Page& page);
    const Page* known_page(const GlobalRegion& region, std::size_t cell) const;
    std::uint64_t number_of(const Instruction& instruction);
    static void keep_lowest(Party newcomer, Party& lowest, Party& next);
    void meet_other_block(Party newcomer, Deed newcomer_does, Party other, Deed other_does, const GlobalRegion& region,
                          std::size_t cell, Lack lack = Lack::unknown, bool newcomer_is_agent = false);
    Party party(const Past& past, std::uint32_t lanes = ~0u);
    /// Whether any block has done more than read and write plainly: added, or what is listed.
    bool has_more() const { return !adders_.empty() || !histories_.empty(); }
    void meet_more(Party newcomer, Deed deed, const GlobalRegion& region, std::size_t cell);
    void meet_history(const Past& newcomer, const History& history, const KnowledgePtr& gained);
    void meet_in_order(const Past& newcomer, const Past& past, bool newcomer_is_after, const History& history);
    void keep(const Past& past, History& history);
    bool is_written_before(const Unwritten& unwritten) const;
    std::optional<MachineError::Report> unwritten_read(std::uint64_t last_block) const;
    MachineError::Report unseen_report(const Conflict& conflict) const;
    Witness witness(Party party) const;
    std::string name_for(Party party, const Conflict& conflict) const;
    bool is_update(const Conflict& conflict) const;
    std::string advice_for(const Conflict& conflict) const;
    std::string place_of(const AtomicBoard::Step& step) const;
    std::string narrow_fences(std::uint64_t one, std::uint64_t other) const;
    std::array<unsigned, 3> index_of(std::uint64_t block) const;

    const std::string kernel_;
    const dim3 grid_;
    const std::uint64_t number_;
    Running running_;
    const bool starts_early_;
    std::atomic<bool> next_starts_after_wait_ = false;
    const GlobalRegions regions_;
    std::mutex mutex_;                               // of everything below
    std::pmr::unsynchronized_pool_resource memory_;  // of the maps
    std::pmr::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_{&memory_};
    // Of a cell, by its address: the lowest two, and all that is listed.
    std::pmr::unordered_map<std::uintptr_t, std::array<Party, 2>> adders_{&memory_};
    std::pmr::unordered_map<std::uintptr_t, History> histories_{&memory_};
    std::vector<Unwritten> unwritten_;
    std::vector<Instruction> instructions_;
    std::size_t recent_instruction_ = 0;  // whose number was asked for last
    std::optional<Conflict> first_conflict_;
    std::atomic<bool> has_conflict_ = false;
    AtomicBoard board_;  // has a mutex of its own
};

/// What the running block of one worker does to global memory. Inside a block the rules of shared memory hold: see
/// SharedMemory for intervals. Memory that kernels only read costs two comparisons an access.
class GlobalShadow {
  public:
    explicit GlobalShadow(FaultHandler& faults);
    ~GlobalShadow();

    void start_block(GlobalLaunchShadow& launch, std::uint64_t block);

    /// Tells the launch what the block did, also when it ends early.
    void end_block();

    void open_block_interval() {
        ++block_interval_;
        if (clocks_) readers_.clear();
        if (waited_.any()) waited_.set();  // who comes out of a barrier has waited, if anyone before it had
    }

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
    void join_cluster(std::vector<std::uint64_t> numbers, int rank, int threads) {
        cluster_.join(std::move(numbers), rank, threads);
        begin_to_list();
    }
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
        explicit AtomicNote(const allocator_type& memory)
            : modifiers(memory), loaders(memory), changes(memory), looks(memory) {}

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
        explicit Listed(const allocator_type& memory) : list(memory) {}

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
    std::pmr::unordered_map<std::uintptr_t, ReaderList> readers_{&memory_};
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
    std::pmr::unordered_map<std::uintptr_t, Listed> listed_{&memory_};       // by the address of the cell
    std::pmr::unordered_map<std::uintptr_t, AtomicNote> atomics_{&memory_};  // likewise
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
