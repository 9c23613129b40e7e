#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/simt/language/cuda_names.h"
#include "common/simt/memory/atomic_board.h"
#include "common/simt/memory/global_memory.h"
#include "common/simt/memory/global_sums.h"
#include "common/simt/memory/knowledge.h"
#include "common/simt/memory/listed_access.h"
#include "common/simt/memory/spare.h"
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

        ~Page();
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
        explicit History(const allocator_type& memory);
        ~History();
        History(const History&) = delete;
        History& operator=(const History&) = delete;

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
    std::pmr::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
    // Of a cell, by its address: the lowest two, and all that is listed.
    std::pmr::unordered_map<std::uintptr_t, std::array<Party, 2>> adders_;
    std::pmr::unordered_map<std::uintptr_t, History> histories_;
    std::vector<Unwritten> unwritten_;
    std::vector<Instruction> instructions_;
    std::size_t recent_instruction_ = 0;  // whose number was asked for last
    std::optional<Conflict> first_conflict_;
    std::atomic<bool> has_conflict_ = false;
    AtomicBoard board_;  // has a mutex of its own
};

}  // namespace cpu
}  // namespace simt
