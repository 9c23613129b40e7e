#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/simt/memory/reader_list.h"
#include "common/simt/memory/thread_clocks.h"
#include "common/simt/report/fault_handler.h"
#include "common/simt/report/machine_error.h"
#include "common/simt/report/source_site.h"

namespace simt {
inline namespace cpu {

/// The shared memory of the block that a worker runs, with a shadow that knows who touched what, and when.
///
/// Time inside a block is counted in intervals. __syncthreads() opens a new block interval, __syncwarp() a new interval
/// of its warp. Two accesses of different threads are ordered if they lie in different block intervals, or if the
/// threads share a warp and lie in different warp intervals. Everything else is a race if one of the two writes.
///
/// One counter numbers the intervals of both kinds. A block interval is also a new interval of every warp, with the
/// same number; so the number of a warp's interval alone tells which block interval it lies in, and a cell keeps no
/// other.
///
/// Blocks whose threads meet in other ways, such as some lanes of a warp, have clocks that tell the order of what
/// intervals leave open: see order_by(). From then on a cell has a list of all who read it.
///
/// The shadow has a cell for every element. Elements of different widths may lie over the same bytes; then each 16
/// bytes have cells of the narrowest width that they were touched with, until they are written as a whole. Most
/// accesses find in the cell all that they would leave there, and only look; so cells are small, and the source lines,
/// wanted for messages alone, lie elsewhere.
///
/// Kernels mostly move vectors of 16 bytes. Bytes that are touched so have one note for all their cells, until somebody
/// touches them otherwise; and most reads of them are over after two comparisons, see open_to_reader().
class SharedMemory {
  public:
    static constexpr std::size_t kAlignment = 1024;
    /// Whether accesses to elements of this type can be watched.
    template <class T>
    static constexpr bool takes = std::has_single_bit(sizeof(T)) && sizeof(T) <= 16;
    static constexpr std::size_t kNowhereBytes = 64;
    static constexpr std::size_t kMostThreads = 1024;
    static constexpr std::size_t kForbiddenBytes = 64;  // between the block's memory and nowhere(), at least

    /// What it asks of the block that it belongs to.
    class Owner : public FaultHandler {
      public:
        /// Diagnoses a thread that touched bytes which take_off() has marked and land() not yet: who issued the copy
        /// knows it. `does`: "reads" or "writes".
        [[noreturn]] virtual void fail_in_flight(const char* does, std::size_t offset, int thread, SourceSite site) = 0;

        /// What messages call a thread, or an agent of ThreadClocks: "thread 5", "the copies to K full[0]".
        virtual std::string party(int who) const = 0;

        /// A thread, or a visitor of ThreadClocks, where it stood.
        virtual Witness witness(int who, SourceSite site) const = 0;

        /// "block (1, 0, 0)"
        virtual std::string home() const = 0;

      protected:
        ~Owner() = default;
    };

    /// A thread of another block of the cluster, which reaches this block's memory.
    class Visitor {
      public:
        int who;                 ///< see ThreadClocks
        std::uint32_t interval;  ///< of its warp, in its own block

        /// Whether what somebody did in this block's memory lies before what the visitor does. `who`: a thread or an
        /// agent of this block, or a visitor.
        virtual bool knows(int who, std::uint32_t interval) const = 0;
        /// Whether agents that the visitor sets off see what a thread of this block, or a visitor, stored.
        virtual bool has_shown(int who, std::uint32_t interval) const = 0;

      protected:
        Visitor(int who, std::uint32_t interval) : who(who), interval(interval) {}
        ~Visitor() = default;
    };

    explicit SharedMemory(Owner& owner);
    ~SharedMemory();

    /// What a name in a message stands for: one tile carved from an arena.
    struct Region {
        const char* name;
        std::size_t offset;
        int rows, columns, pitch, element_bytes;
        unsigned round = 0;  ///< how often its arena had started over, at the latest
        int thread = -1;     ///< that carved it first
        SourceSite site{};   ///< where it did
        // Of a tile made of panels, one behind the other, each with all rows:
        int panel_columns = 0;      ///< columns of each; 0: the tile lies row by row
        unsigned swizzle_bits = 0;  ///< of a byte's place in a panel the bits that those three above them change

        std::size_t end() const { return offset + std::size_t(rows) * std::size_t(pitch) * std::size_t(element_bytes); }
        bool same_tile(const Region& other) const;
        std::array<std::size_t, 2> indices_of(std::size_t byte) const;  ///< row and column of what lies at that offset
        bool overlaps(const Region& other) const { return offset < other.end() && other.offset < end(); }
    };

    /// What one access touches: neighbouring elements of a width in bytes. Small enough to be passed in a register.
    struct Elements {
        std::uint32_t first;  ///< its offset
        std::uint16_t count, width;

        std::size_t offset() const { return first; }
        std::size_t bytes() const { return std::size_t{count} * width; }
    };

    /// Those in `bytes` bytes from `offset` on, of `element_bytes` each: a power of two, which they are aligned to.
    static Elements elements_of(std::size_t offset, std::size_t bytes, std::size_t element_bytes) {
        return {std::uint32_t(offset), std::uint16_t(bytes / element_bytes), std::uint16_t(element_bytes)};
    }

    /// Makes ready for a new block: fills with 0xFF (NaN in every floating-point type here), forgets all accesses.
    void start_block(std::size_t bytes);

    std::byte* data() { return memory_.get(); }
    const std::byte* data() const { return memory_.get(); }
    std::size_t bytes() const { return bytes_; }
    std::size_t offset_of(const void* p) const { return std::size_t(static_cast<const std::byte*>(p) - memory_.get()); }

    /// Poisoned memory beyond what any tile covers: where accesses out of bounds go while the machine is lenient.
    void* nowhere();

    /// Opens a new interval of the block, and so of each warp, and returns its number.
    std::uint32_t open_block_interval() {
        block_interval_ = ++last_interval_;
        noted_since_ = clocks_ ? 0 : block_interval_;
        whole_block_ = audience(block_interval_, 0);
        return block_interval_;
    }

    std::uint32_t block_interval() const { return block_interval_; }
    std::uint32_t last_interval() const { return last_interval_; }

    /// Opens a new interval of one warp and returns its number.
    std::uint32_t open_warp_interval() { return ++last_interval_; }

    /// Remembers a tile for messages; every thread of the block carves the same tiles, the first one is recorded.
    /// Returns the tile that another arena has in these bytes; null if there is none.
    const Region* name_region(const Region& region);

    /// The tile that has the byte at `offset`: as the thread carved it, if its arenas have started over, or as nobody
    /// has carved it since. Null if no tile has it.
    const Region* region_at(std::size_t offset, int thread) const;

    /// "K_j(3, 5)" for the element at `offset`, in the thread's words.
    std::string element_name(std::size_t offset, int thread) const;

    /// From now on accesses are those of this warp's threads, in this interval of it. `since`: the interval that began
    /// when all of its lanes last met.
    void enter_warp(int warp, std::uint32_t interval, std::uint32_t since) {
        warp_ = audience(interval, warp + 1);
        since_ = since;
    }

    /// From now on, until the block ends, these clocks know the order of what intervals do not order. `since`: a warp's
    /// interval may now also begin when some of its threads pass on what they know.
    void order_by(const ThreadClocks& clocks);

    /// Whether a read would pass every check and leave nothing new in the shadow. May say no where that is not so.
    [[gnu::always_inline]] bool open_to_reader(Elements elements) const {
        if (!is_line(elements)) return false;
        const std::uint64_t open_to = open_to_[elements.first / kLineBytes] - elements.width;
        return open_to == whole_block_ || open_to == warp_;
    }

    /// Checks and remembers a read.
    [[gnu::always_inline]] void read(Elements elements, int thread, std::uint32_t warp_interval, SourceSite site) {
        if (elements.count == 1)
            read_element(elements.first, elements.width, thread, warp_interval, site);
        else
            read_vector(elements, thread, warp_interval, site);
    }

    /// The same for a write.
    [[gnu::always_inline]] void write(Elements elements, int thread, std::uint32_t warp_interval, SourceSite site) {
        if (elements.count == 1)
            write_element(elements.first, elements.width, thread, warp_interval, site);
        else
            write_vector(elements, thread, warp_interval, site);
    }

    /// Checks and remembers an atomic access of one element. Those of different threads do not race with each other.
    void access_atomically(bool reads, bool modifies, Elements element, int thread, std::uint32_t warp_interval,
                           SourceSite site);

    /// An asynchronous copy is on its way to these bytes: to issue it is a write, and until land() whoever reads or
    /// writes them is wrong.
    void take_off(Elements elements, int thread, std::uint32_t warp_interval, SourceSite site);

    /// The copy has arrived: the bytes count as written by `writer`, a thread in its present interval or an agent.
    void land(Elements elements, int writer, std::uint32_t interval, SourceSite site);

    /// An agent that `thread` sets off will write these bytes, of elements of so many bytes: take_off() for all of
    /// them, which may be many. What threads stored there must have been shown to agents. There are clocks.
    void take_off_for_agent(std::size_t offset, std::size_t bytes, std::size_t element_bytes, int thread,
                            std::uint32_t warp_interval, SourceSite site);

    /// Checks and remembers a visitor's read, and write; the latter also of an agent, which then is on its way.
    void read_by_visitor(Elements elements, const Visitor& visitor, SourceSite site);
    void write_by_visitor(Elements elements, const Visitor& visitor, SourceSite site);
    void take_off_for_visitor(std::size_t offset, std::size_t bytes, std::size_t element_bytes, const Visitor& visitor,
                              SourceSite site);

    /// What a visitor did last.
    struct Visit {
        int who;
        std::uint32_t interval;
        std::uint32_t offset;
        bool writes;
        SourceSite site;
    };
    const std::vector<Visit>& visits() const { return visits_; }
    void note_visit(const Visit& visit);

    /// They have come: land() for all of them.
    void land_of_agent(std::size_t offset, std::size_t bytes, std::size_t element_bytes, int agent,
                       std::uint32_t interval, SourceSite site);

    /// An agent that `thread` sets off reads these bytes from now on, until threads learn that what it did in
    /// `interval` is over. They must be written, known to the thread, and shown to agents. There are clocks.
    void read_by_agent(std::size_t offset, std::size_t bytes, std::size_t element_bytes, int thread, int agent,
                       std::uint32_t interval, SourceSite site);

    /// The kernel has a bare pointer to this memory, whose writes nobody sees. Elements that no longer hold what
    /// start_block() left there count as written from now on; where `any_bits` may be written, the others do too.
    void lend_to_bare_pointer(bool any_bits) {
        lent_ = true;
        lent_for_any_bits_ |= any_bits;
    }

  private:
    // Of 16 bits, so that a Cell has no padding: else two overlapping moves copy it, of which the second has to wait.
    enum class Readers : std::uint16_t { one_thread, one_warp, several_warps };

    /// What happened last to two bytes. Intervals are those of the accessing thread's warp.
    struct Cell {
        std::uint32_t write_interval = 0, read_interval = 0;
        // With several readers, two of them: of two warps if there are, so that one always is a stranger to a writer.
        std::uint16_t writer = 0, reader = 0, other_reader = 0;
        Readers readers = Readers::one_thread;
    };
    struct Sites {
        SourceSite write, read, other_read;
    };
    /// 16 bytes. What happened last to them, if they are touched as one vector: one note for all their cells.
    struct Line {
        Cell cell;
        Sites sites;
        std::uint16_t step = 0;          // the width of the elements that the note speaks for; 0: ask the cells
        std::uint16_t cell_bytes = 0;    // what a cell stands for; 0: do not ask the cells, or nobody has touched them
        bool cells_know_writer = false;  // of each element; the line's stands for all when it is read
    };

    static constexpr std::size_t kLineBytes = 16;
    static constexpr std::byte kGarbage{0xFF};  // in every byte when a block starts

    // What a cell shows while an asynchronous copy fills it: written later than any interval, by a thread that does not
    // exist. So every access meets a conflict in the comparisons that it makes anyway.
    static constexpr std::uint32_t kInFlight = UINT32_MAX;
    static constexpr std::uint16_t kNoThread = UINT16_MAX;

    // What it shows once it has been accessed atomically, until somebody writes it otherwise: likewise.
    static constexpr std::uint32_t kAtomics = kInFlight - 1;
    /// What is kept beside such an element.
    struct AtomicNote {
        std::uint32_t block_interval = 0;  // that the lists are of
        std::uint16_t width = 0;           // of the element, in bytes
        ReaderList modifiers, loaders;
        struct Look {
            int thread;
            std::uint32_t interval;
        };
        std::vector<Look> looks;  // of threads that have seen what the last one of modifiers left
        Cell before{};            // who wrote it last otherwise
        Sites before_sites{};
    };

    static bool same_warp(int a, int b) { return unsigned(a ^ b) < 32; }

    [[gnu::always_inline]] void read_element(std::size_t offset, std::size_t width, int thread,
                                             std::uint32_t warp_interval, SourceSite site) {
        if (lines_[offset / kLineBytes].cell_bytes != width) [[unlikely]]
            read_finer(offset, width, thread, warp_interval, site);
        else
            read_cell(cell_of(offset, width), thread, warp_interval, site);
    }

    [[gnu::always_inline]] void write_element(std::size_t offset, std::size_t width, int thread,
                                              std::uint32_t warp_interval, SourceSite site) {
        if (lines_[offset / kLineBytes].cell_bytes != width) [[unlikely]]
            write_finer(offset, width, thread, warp_interval, site);
        else
            write_cell(cell_of(offset, width), thread, warp_interval, site);
    }

    /// The cell of an element of so many bytes: there is one for every two bytes, and wider elements use every second,
    /// fourth or eighth only. Cells for single bytes, which few kernels need, lie behind all others.
    [[gnu::always_inline]] std::size_t cell_of(std::size_t offset, std::size_t width) const {
        return width == 1 ? first_byte_cell() + offset : offset / 2;
    }
    std::size_t offset_of_cell(std::size_t cell) const {
        return cell < first_byte_cell() ? 2 * cell : cell - first_byte_cell();
    }
    std::size_t first_byte_cell() const { return lines_.size() * kLineBytes / 2; }

    [[gnu::always_inline]] void read_cell(std::size_t index, int thread, std::uint32_t warp_interval, SourceSite site) {
        Cell& c = cells_[index];
        if (c.write_interval < first_interval_) [[unlikely]]
            uninitialised(index, thread, site);
        if (write_races_with(c, thread)) [[unlikely]]
            race("reads", index, thread, site, "wrote", c.writer, sites_[index].write);
        if (!knows_reader(c, thread, warp_interval)) remember_reader(c, sites_[index], thread, warp_interval, site);
    }

    [[gnu::always_inline]] void write_cell(std::size_t index, int thread, std::uint32_t warp_interval,
                                           SourceSite site) {
        Cell& c = cells_[index];
        if (write_races_with(c, thread)) [[unlikely]]
            race("writes", index, thread, site, "wrote", c.writer, sites_[index].write);
        if (reads_race_with(c, thread)) [[unlikely]]
            race_with_reader(index, thread, site);
        c.write_interval = warp_interval;
        c.writer = static_cast<std::uint16_t>(thread);
        sites_[index].write = site;
    }

    [[gnu::noinline]] void read_finer(std::size_t offset, std::size_t width, int thread, std::uint32_t warp_interval,
                                      SourceSite site);
    [[gnu::noinline]] void write_finer(std::size_t offset, std::size_t width, int thread, std::uint32_t warp_interval,
                                       SourceSite site);

    /// Makes the cells of a line speak for themselves, none of them for more than `width` bytes, and calls use(index)
    /// for each of those of the `width` bytes from `offset` on.
    template <class Use>
    void with_cells(std::size_t offset, std::size_t width, Use&& use);

    void read_vector(Elements elements, int thread, std::uint32_t warp_interval, SourceSite site);
    [[gnu::noinline]] void read_one_by_one(Elements elements, int thread, std::uint32_t warp_interval, SourceSite site);
    void write_vector(Elements elements, int thread, std::uint32_t warp_interval, SourceSite site);
    [[gnu::noinline]] void write_one_by_one(Elements elements, int thread, std::uint32_t warp_interval,
                                            SourceSite site);

    /// Whether these are all the elements of 16 bytes: vectors are aligned to their size.
    static bool is_line(Elements elements) { return elements.count > 1 && elements.bytes() == kLineBytes; }

    /// The line that speaks for these elements; null if their cells speak for themselves.
    Line* line_of(Elements elements) {
        if (!is_line(elements)) return nullptr;
        Line& line = lines_[elements.first / kLineBytes];
        return line.step == elements.width ? &line : nullptr;
    }

    void ask_cells(std::size_t line, std::size_t width);
    void hand_to_cells(std::size_t line);
    void hand_to_line(Elements elements);

    /// The threads of a warp in one of its intervals, or of the whole block in one of the block's.
    static std::uint64_t audience(std::uint32_t interval, int warp_after) {
        return std::uint64_t{interval} << 32 | std::uint64_t(warp_after) << 8;
    }

    bool may_read(const Cell& c, int thread) const {
        return c.write_interval >= first_interval_ && !write_races_with(c, thread);
    }

    bool write_races_with(const Cell& c, int thread) const {
        return c.write_interval >= block_interval_ && c.writer != thread &&
               !(same_warp(c.writer, thread) && c.write_interval < since_) &&
               !(clocks_ && c.write_interval < kAtomics && clocks_->knows(thread, c.writer, c.write_interval));
    }

    /// Whether the cell need not remember a read: whatever would race with it races with one that the cell has.
    bool knows_reader(const Cell& c, int thread, std::uint32_t warp_interval) const {
        if (c.read_interval < block_interval_) return false;
        if (c.readers == Readers::several_warps) return !clocks_;
        return same_warp(c.reader, thread) && c.read_interval >= warp_interval &&
               (c.readers == Readers::one_warp || c.reader == thread);
    }

    void remember_reader(Cell& c, Sites& sites, int thread, std::uint32_t warp_interval, SourceSite site);

    /// Where there are no clocks.
    [[gnu::always_inline]] void note_reader(Cell& c, Sites& sites, int thread, std::uint32_t warp_interval,
                                            SourceSite site) const {
        // Earlier reads of this warp that a __syncwarp() already orders before this one need no memory of their own:
        // whatever races with them races with this read too.
        const bool starts_afresh =
            c.read_interval < block_interval_ || (same_warp(c.reader, thread) && c.read_interval < warp_interval);
        if (starts_afresh) {
            c.readers = Readers::one_thread;
        } else {
            c.readers = same_warp(c.reader, thread) ? Readers::one_warp : Readers::several_warps;
            c.other_reader = c.reader;
            sites.other_read = sites.read;
        }
        c.read_interval = warp_interval;
        c.reader = static_cast<std::uint16_t>(thread);
        sites.read = site;
    }
    [[gnu::noinline]] void list_reader(const Cell& c, int thread, std::uint32_t warp_interval, SourceSite site);

    /// The list of all who read, of a cell or of a line's note.
    ReaderList& readers_of(const Cell& c);

    /// Whether a write by this thread races with a read that the cell, or its list, remembers.
    bool reads_race_with(const Cell& c, int thread) {
        if (c.read_interval < noted_since_) return false;
        if (clocks_) [[unlikely]]
            return reads_race_by_clocks(c, thread);
        return noted_reader_races_with(c, thread);
    }
    bool noted_reader_races_with(const Cell& c, int thread) const {
        if (c.read_interval < block_interval_) return false;
        switch (c.readers) {
            case Readers::several_warps:
                return true;
            case Readers::one_thread:
                return c.reader != thread && !(same_warp(c.reader, thread) && c.read_interval < since_);
            case Readers::one_warp:
                return !(same_warp(c.reader, thread) && c.read_interval < since_);
        }
        return true;
    }
    [[gnu::noinline]] bool reads_race_by_clocks(const Cell& c, int thread);
    int noted_reader_unknown_to(const Cell& c, int thread) const;

    bool may_be_of_bare_pointer(std::size_t offset, int thread) const;

    /// Calls use(cell, its sites, the offset that it begins at) for the notes of 16 bytes and less.
    template <class Use>
    void with_notes(Elements elements, Use&& use);
    void check_shown(const Cell& c, const char* does, std::size_t offset, int thread, SourceSite site,
                     SourceSite write_site) const;

    // These return while the machine is lenient.
    [[gnu::cold, gnu::noinline]] void not_shown(const Cell& c, const char* does, std::size_t offset, int thread,
                                                SourceSite site, SourceSite write_site) const;
    [[gnu::cold, gnu::noinline]] void uninitialised(std::size_t cell, int thread, SourceSite site) const;
    [[gnu::cold, gnu::noinline]] void race_with_reader(std::size_t cell, int thread, SourceSite site,
                                                       const char* does = "writes");
    [[gnu::cold, gnu::noinline]] void race(const char* does, std::size_t cell, int thread, SourceSite site,
                                           const char* did, int other, SourceSite other_site) const;
    [[gnu::cold, gnu::noinline]] void race(const char* does, const Cell& c, std::size_t offset, int thread,
                                           SourceSite site, const char* did, int other, SourceSite other_site,
                                           bool both_update = false) const;
    [[gnu::cold, gnu::noinline]] void report_race(const char* does, std::size_t cell, int thread, SourceSite site,
                                                  const char* did, int other, SourceSite other_site) const;
    [[gnu::noinline]] void meet_atomics(const char* does, std::size_t cell, int thread, SourceSite site) const;
    void meet_atomics(const AtomicNote& note, const char* does, std::size_t cell, int thread, SourceSite site) const;
    void meet_other_width(const AtomicNote& note, bool modifies, Elements element, int thread, SourceSite site) const;
    template <class Use>
    void for_each_note(std::size_t offset, std::size_t width, Use&& use) const;
    void forget_atomics();
    void forget_visits();
    bool check_visit(const char* does, const Cell& c, const Sites& sites, std::size_t offset, const Visitor& visitor,
                     SourceSite site);
    void meet_readers(std::size_t cell, const Visitor& visitor, SourceSite site);
    [[gnu::cold, gnu::noinline]] void not_shown_to_visitor(std::size_t cell, const Visitor& visitor,
                                                           SourceSite site) const;
    [[gnu::cold, gnu::noinline]] void race_of_visitor(const char* does, std::size_t offset, const Visitor& visitor,
                                                      SourceSite site, const char* did, int other,
                                                      SourceSite other_site) const;

    struct Free {
        void operator()(std::byte* p) const;
    };
    Owner& owner_;
    std::unique_ptr<std::byte[], Free> memory_;
    std::size_t bytes_ = 0, capacity_ = 0;
    std::vector<Cell> cells_;
    std::vector<Sites> sites_;  // of cells_
    std::vector<Line> lines_;   // for each 16 bytes
    // Of lines_: the audience that they are open to, with the step of the elements added. Two threads of it have read
    // them without a race, of two warps if it is the whole block. Then the rest of it can, and who writes them in its
    // interval races with one of the two, whoever he is. So nothing need ever close them.
    std::vector<std::uint64_t> open_to_;
    std::uint64_t whole_block_ = 0, warp_ = 0;  // audiences of whoever runs now
    std::uint32_t since_ = 1;                   // when the lanes of his warp last met
    std::uint32_t noted_since_ =
        1;  // a read noted before it need not be looked at by who writes; 0: nor may it be left
    const ThreadClocks* clocks_ = nullptr;                 // of the block, if it has any
    std::vector<ReaderList> cell_readers_, line_readers_;  // of cells_ and lines_, where there are clocks
    std::uint32_t ordered_blocks_ = 0;                     // that had clocks
    std::vector<Region> regions_;
    std::vector<unsigned> rounds_;  // of each thread's last tile; empty as long as no arena has started over
    std::size_t copies_in_flight_ = 0;
    std::unordered_map<std::size_t, AtomicNote> atomics_;  // by offset, in steps of 4 bytes
    std::vector<Visit> visits_;                            // the last of each visitor
    std::vector<std::uint32_t> visited_;                   // lines that visitors have written, with repetitions
    bool lent_ = false, lent_for_any_bits_ = false;        // to bare pointers, in this block
    // Intervals only grow, across blocks too: what an earlier block left in the shadow is older than first_interval_.
    std::uint32_t first_interval_ = 1, block_interval_ = 1, last_interval_ = 1;
};

template <class Use>
void SharedMemory::with_cells(std::size_t offset, std::size_t width, Use&& use) {
    const std::size_t line = offset / kLineBytes;
    ask_cells(line, width);
    const std::size_t cell_bytes = lines_[line].cell_bytes;
    for (std::size_t o = offset; o < offset + width; o += cell_bytes) use(cell_of(o, cell_bytes));
}

}  // namespace cpu
}  // namespace simt
