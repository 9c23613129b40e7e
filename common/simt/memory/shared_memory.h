#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/simt/report/fault_handler.h"
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
/// The shadow has a cell for every two bytes, because tiles of 16-bit types need it. A tile of wider elements uses
/// every second or fourth cell only. Most accesses find in the cell all that they would leave there, and only look;
/// so cells are small, and the source lines, wanted for messages alone, lie elsewhere.
///
/// Kernels mostly move vectors of 16 bytes. Bytes that are touched so have one note for all their cells, until somebody
/// touches them otherwise; and most reads of them are over after two comparisons, see open_to_reader().
class SharedMemory {
  public:
    static constexpr std::size_t kAlignment = 1024;
    static constexpr std::size_t kCellBytes = 2;
    static constexpr std::size_t kNowhereBytes = 64;
    static constexpr std::size_t kForbiddenBytes = 64;  // between the block's memory and nowhere(), at least

    /// What it asks of the block that it belongs to.
    class Owner : public FaultHandler {
      public:
        /// Diagnoses a thread that touched bytes which take_off() has marked and land() not yet: who issued the copy
        /// knows it. `does`: "reads" or "writes".
        [[noreturn]] virtual void fail_in_flight(const char* does, std::size_t offset, int thread, SourceSite site) = 0;

      protected:
        ~Owner() = default;
    };

    explicit SharedMemory(Owner& owner) : owner_(owner) {}

    /// What a name in a message stands for: one tile carved from the arena.
    struct Region {
        const char* name;
        std::size_t offset;
        int rows, columns, pitch, element_bytes;
    };

    /// What one access touches: of each element its first cell. Small enough to be passed in a register.
    struct Cells {
        std::uint32_t first;
        std::uint16_t count, step;

        std::size_t offset() const { return first * kCellBytes; }
        std::size_t bytes() const { return std::size_t{count} * step * kCellBytes; }
    };

    /// The cells of `bytes` bytes from `offset` on, in elements of `element_bytes` each.
    static Cells cells_of(std::size_t offset, std::size_t bytes, std::size_t element_bytes) {
        return {std::uint32_t(offset / kCellBytes), std::uint16_t(bytes / element_bytes),
                std::uint16_t(element_bytes / kCellBytes)};
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
        whole_block_ = audience(block_interval_, 0);
        return block_interval_;
    }

    std::uint32_t block_interval() const { return block_interval_; }

    /// Opens a new interval of one warp and returns its number.
    std::uint32_t open_warp_interval() { return ++last_interval_; }

    /// Remembers a tile for messages; every thread of the block carves the same tiles, the first one is recorded.
    void name_region(const Region& region);

    /// The tiles that this block has carved so far.
    std::span<const Region> regions() const { return regions_; }

    /// "K_j(3, 5)" for the element at `offset`.
    std::string element_name(std::size_t offset) const;

    /// From now on accesses are those of this warp's threads, in this interval of it.
    void enter_warp(int warp, std::uint32_t interval) { warp_ = audience(interval, warp + 1); }

    /// Whether a read would pass every check and leave nothing new in the shadow. May say no where that is not so.
    [[gnu::always_inline]] bool open_to_reader(Cells cells) const {
        if (!is_line(cells)) return false;
        const std::uint64_t open_to = open_to_[cells.first / kLineCells] - cells.step;
        return open_to == whole_block_ || open_to == warp_;
    }

    /// Checks and remembers a read.
    [[gnu::always_inline]] void read(Cells cells, int thread, std::uint32_t warp_interval, SourceSite site) {
        if (cells.count == 1)
            read_cell(cells.first, thread, warp_interval, site);
        else
            read_vector(cells, thread, warp_interval, site);
    }

    /// The same for a write.
    [[gnu::always_inline]] void write(Cells cells, int thread, std::uint32_t warp_interval, SourceSite site) {
        if (cells.count == 1)
            write_cell(cells.first, thread, warp_interval, site);
        else
            write_vector(cells, thread, warp_interval, site);
    }

    /// An asynchronous copy is on its way to these bytes: to issue it is a write, and until land() whoever reads or
    /// writes them is wrong.
    void take_off(Cells cells, int thread, std::uint32_t warp_interval, SourceSite site);

    /// The copy has arrived: the bytes count as written by `thread` in its present interval.
    void land(Cells cells, int thread, std::uint32_t warp_interval, SourceSite site);

  private:
    enum class Readers : std::uint8_t { one_thread, one_warp, several_warps };

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
    /// What happened last to 16 bytes that are touched as one vector: one note for all its cells.
    struct Line {
        Cell cell;
        Sites sites;
        std::uint16_t step = 0;          // from cell to cell of its elements; 0: ask the cells, not the line
        bool cells_know_writer = false;  // of each element; the line's stands for all when it is read
    };

    static constexpr std::size_t kLineCells = 16 / kCellBytes;

    // What a cell shows while an asynchronous copy fills it: written later than any interval, by a thread that does not
    // exist. So every access meets a conflict in the comparisons that it makes anyway.
    static constexpr std::uint32_t kInFlight = UINT32_MAX;
    static constexpr std::uint16_t kNoThread = UINT16_MAX;

    static bool same_warp(int a, int b) { return unsigned(a ^ b) < 32; }

    [[gnu::always_inline]] void read_cell(std::size_t index, int thread, std::uint32_t warp_interval, SourceSite site) {
        Cell& c = cell(index);
        if (c.write_interval < first_interval_) [[unlikely]]
            uninitialised(index, thread, site);
        if (write_races_with(c, thread, warp_interval)) [[unlikely]]
            race("reads", index, thread, site, "wrote", c.writer, sites_[index].write);
        if (!knows_reader(c, thread, warp_interval)) remember_reader(c, sites_[index], thread, warp_interval, site);
    }

    [[gnu::always_inline]] void write_cell(std::size_t index, int thread, std::uint32_t warp_interval,
                                           SourceSite site) {
        Cell& c = cell(index);
        if (write_races_with(c, thread, warp_interval)) [[unlikely]]
            race("writes", index, thread, site, "wrote", c.writer, sites_[index].write);
        if (reads_race_with(c, thread, warp_interval)) [[unlikely]] {
            const bool other =
                c.reader == thread || (c.readers == Readers::several_warps && same_warp(c.reader, thread));
            race("writes", index, thread, site, "read", other ? c.other_reader : c.reader,
                 other ? sites_[index].other_read : sites_[index].read);
        }
        c.write_interval = warp_interval;
        c.writer = static_cast<std::uint16_t>(thread);
        sites_[index].write = site;
    }

    void read_vector(Cells cells, int thread, std::uint32_t warp_interval, SourceSite site);
    [[gnu::noinline]] void read_one_by_one(Cells cells, int thread, std::uint32_t warp_interval, SourceSite site);
    void write_vector(Cells cells, int thread, std::uint32_t warp_interval, SourceSite site);
    [[gnu::noinline]] void write_one_by_one(Cells cells, int thread, std::uint32_t warp_interval, SourceSite site);

    /// Whether these are all the cells of 16 bytes: vectors are aligned to their size.
    static bool is_line(Cells cells) { return cells.count > 1 && cells.count * cells.step == kLineCells; }

    /// The line that speaks for these cells; null if they speak for themselves.
    Line* line_of(Cells cells) {
        if (!is_line(cells)) return nullptr;
        Line& line = lines_[cells.first / kLineCells];
        return line.step == cells.step ? &line : nullptr;
    }

    /// A cell that speaks for itself.
    Cell& cell(std::size_t index) {
        if (lines_[index / kLineCells].step) [[unlikely]]
            hand_to_cells(index / kLineCells);
        return cells_[index];
    }
    [[gnu::noinline]] void hand_to_cells(std::size_t line);
    void hand_to_line(Cells cells);

    /// The threads of a warp in one of its intervals, or of the whole block in one of the block's.
    static std::uint64_t audience(std::uint32_t interval, int warp_after) {
        return std::uint64_t{interval} << 32 | std::uint64_t(warp_after) << 8;
    }

    bool may_read(const Cell& c, int thread, std::uint32_t warp_interval) const {
        return c.write_interval >= first_interval_ && !write_races_with(c, thread, warp_interval);
    }

    bool write_races_with(const Cell& c, int thread, std::uint32_t warp_interval) const {
        return c.write_interval >= block_interval_ && c.writer != thread &&
               !(same_warp(c.writer, thread) && c.write_interval < warp_interval);
    }

    /// Whether the cell need not remember a read: whatever would race with it races with one that the cell has.
    bool knows_reader(const Cell& c, int thread, std::uint32_t warp_interval) const {
        if (c.read_interval < block_interval_) return false;
        if (c.readers == Readers::several_warps) return true;
        return same_warp(c.reader, thread) && c.read_interval >= warp_interval &&
               (c.readers == Readers::one_warp || c.reader == thread);
    }

    void remember_reader(Cell& c, Sites& sites, int thread, std::uint32_t warp_interval, SourceSite site) const;

    /// Whether a write by this thread races with a read that the cell remembers.
    bool reads_race_with(const Cell& c, int thread, std::uint32_t warp_interval) const {
        if (c.read_interval < block_interval_) return false;
        switch (c.readers) {
            case Readers::several_warps:
                return true;
            case Readers::one_thread:
                return c.reader != thread && !(same_warp(c.reader, thread) && c.read_interval < warp_interval);
            case Readers::one_warp:
                return !(same_warp(c.reader, thread) && c.read_interval < warp_interval);
        }
        return true;
    }

    // These return while the machine is lenient.
    [[gnu::cold, gnu::noinline]] void uninitialised(std::size_t cell, int thread, SourceSite site) const;
    [[gnu::cold, gnu::noinline]] void race(const char* does, std::size_t cell, int thread, SourceSite site,
                                           const char* did, int other, SourceSite other_site) const;

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
    std::vector<Region> regions_;
    std::size_t copies_in_flight_ = 0;
    // Intervals only grow, across blocks too: what an earlier block left in the shadow is older than first_interval_.
    std::uint32_t first_interval_ = 1, block_interval_ = 1, last_interval_ = 1;
};

}  // namespace cpu
}  // namespace simt
