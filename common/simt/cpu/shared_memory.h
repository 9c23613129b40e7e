#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/simt/source_site.h"

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
class SharedMemory {
  public:
    static constexpr std::size_t kAlignment = 1024;
    static constexpr std::size_t kCellBytes = 2;
    static constexpr std::size_t kNowhereBytes = 64;
    static constexpr std::size_t kForbiddenBytes = 64;  // between the block's memory and nowhere(), at least

    /// What a name in a message stands for: one tile carved from the arena.
    struct Region {
        const char* name;
        std::size_t offset;
        int rows, columns, pitch, element_bytes;
    };

    /// Makes ready for a new block: fills with 0xFF (NaN in every floating-point type here), forgets all accesses.
    void start_block(std::size_t bytes);

    std::byte* data() { return memory_.get(); }
    std::size_t bytes() const { return bytes_; }
    std::size_t offset_of(const void* p) const { return std::size_t(static_cast<const std::byte*>(p) - memory_.get()); }

    /// Poisoned memory beyond what any tile covers: where accesses out of bounds go while the machine is lenient.
    void* nowhere();

    /// Opens a new interval of the block, and so of each warp, and returns its number.
    std::uint32_t open_block_interval() { return block_interval_ = ++last_interval_; }

    std::uint32_t block_interval() const { return block_interval_; }

    /// Opens a new interval of one warp and returns its number.
    std::uint32_t open_warp_interval() { return ++last_interval_; }

    /// Remembers a tile for messages; every thread of the block carves the same tiles, the first one is recorded.
    void name_region(const Region& region);

    /// The tiles that this block has carved so far.
    std::span<const Region> regions() const { return regions_; }

    /// "K_j(3, 5)" for the element at `offset`.
    std::string element_name(std::size_t offset) const;

    /// Checks and remembers a read of `bytes` bytes from `offset` on, in elements of `element_bytes` each.
    [[gnu::always_inline]] void read(std::size_t offset, std::size_t bytes, std::size_t element_bytes, int thread,
                                     std::uint32_t warp_interval, SourceSite site) {
        const Cells cells = cells_of(offset, bytes, element_bytes);
        if (cells.count == 1)
            read_cell(cells.first, thread, warp_interval, site);
        else if (!alike(cells) || !may_read(cells_[cells.first], thread, warp_interval))
            read_one_by_one(cells, thread, warp_interval, site);
        else if (!knows_reader(cells_[cells.first], thread, warp_interval))
            remember_reader(cells, thread, warp_interval, site);
    }

    /// The same for a write.
    [[gnu::always_inline]] void write(std::size_t offset, std::size_t bytes, std::size_t element_bytes, int thread,
                                      std::uint32_t warp_interval, SourceSite site) {
        const Cells cells = cells_of(offset, bytes, element_bytes);
        if (cells.count == 1)
            write_cell(cells.first, thread, warp_interval, site);
        else
            write_vector(cells, thread, warp_interval, site);
    }

    /// An asynchronous copy is on its way to these bytes: to issue it is a write, and until land() whoever reads or
    /// writes them is wrong.
    void take_off(std::size_t offset, std::size_t bytes, std::size_t element_bytes, int thread,
                  std::uint32_t warp_interval, SourceSite site);

    /// The copy has arrived: the bytes count as written by `thread` in its present interval.
    void land(std::size_t offset, std::size_t bytes, std::size_t element_bytes, int thread, std::uint32_t warp_interval,
              SourceSite site);

  private:
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
    /// The cells of one access: the first of each element. Small enough to be passed in a register.
    struct Cells {
        std::uint32_t first;
        std::uint16_t count, step;
    };
    static Cells cells_of(std::size_t offset, std::size_t bytes, std::size_t element_bytes) {
        return {std::uint32_t(offset / kCellBytes), std::uint16_t(bytes / element_bytes),
                std::uint16_t(element_bytes / kCellBytes)};
    }

    static constexpr std::size_t kLineCells = 16 / kCellBytes;

    // What a cell shows while an asynchronous copy fills it: written later than any interval, by a thread that does not
    // exist. So every access meets a conflict in the comparisons that it makes anyway.
    static constexpr std::uint32_t kInFlight = UINT32_MAX;
    static constexpr std::uint16_t kNoThread = UINT16_MAX;

    static bool same_warp(int a, int b) { return unsigned(a ^ b) < 32; }

    [[gnu::always_inline]] void read_cell(std::size_t index, int thread, std::uint32_t warp_interval, SourceSite site) {
        const Cell& c = cells_[index];
        if (c.write_interval < first_interval_) [[unlikely]]
            uninitialised(index, thread, site);
        if (write_races_with(c, thread, warp_interval)) [[unlikely]]
            race("reads", index, thread, site, "wrote", c.writer, sites_[index].write);
        if (!knows_reader(c, thread, warp_interval))
            remember_reader({std::uint32_t(index), 1, 1}, thread, warp_interval, site);
    }

    [[gnu::always_inline]] void write_cell(std::size_t index, int thread, std::uint32_t warp_interval,
                                           SourceSite site) {
        Cell& c = cells_[index];
        if (write_races_with(c, thread, warp_interval)) [[unlikely]]
            race("writes", index, thread, site, "wrote", c.writer, sites_[index].write);
        if (c.read_interval >= block_interval_ && reads_race_with(c, thread, warp_interval)) [[unlikely]] {
            const bool other =
                c.reader == thread || (c.readers == Readers::several_warps && same_warp(c.reader, thread));
            race("writes", index, thread, site, "read", other ? c.other_reader : c.reader,
                 other ? sites_[index].other_read : sites_[index].read);
        }
        c.write_interval = warp_interval;
        c.writer = static_cast<std::uint16_t>(thread);
        sites_[index].write = site;
        lines_[index / kLineCells] = 0;
    }

    [[gnu::noinline]] void read_one_by_one(Cells cells, int thread, std::uint32_t warp_interval, SourceSite site) {
        for (std::size_t i = 0; i < cells.count; ++i)
            read_cell(cells.first + i * cells.step, thread, warp_interval, site);
        if (is_line(cells) && first_speaks_for_all(cells))
            lines_[cells.first / kLineCells] = static_cast<std::uint8_t>(cells.step);
    }
    [[gnu::noinline]] void write_vector(Cells cells, int thread, std::uint32_t warp_interval, SourceSite site) {
        for (std::size_t i = 0; i < cells.count; ++i)
            write_cell(cells.first + i * cells.step, thread, warp_interval, site);
        if (!is_line(cells)) return;
        // Whoever may write after this may do so after the reads before it too: they need no memory any more.
        for (std::size_t i = 0; i < cells.count; ++i) cells_[cells.first + i * cells.step].read_interval = 0;
        lines_[cells.first / kLineCells] = static_cast<std::uint8_t>(cells.step);
    }

    /// Whether may_read() and knows_reader() will give one answer for all these cells, to whoever asks, until one of
    /// them is written. A thread has just read them without a race, so of those written in one interval it wrote all,
    /// or they are ordered before it. Then they are so for its whole warp, and who in it wrote which does not matter.
    bool first_speaks_for_all(Cells cells) const {
        const Cell& first = cells_[cells.first];
        for (std::size_t i = 1; i < cells.count; ++i) {
            const Cell& c = cells_[cells.first + i * cells.step];
            if (c.write_interval != first.write_interval || c.read_interval != first.read_interval ||
                c.readers != first.readers || c.reader != first.reader)
                return false;
        }
        return true;
    }

    /// What is touched as one vector of 16 bytes gets cells of which the first speaks for all.
    bool alike(Cells cells) const { return is_line(cells) && lines_[cells.first / kLineCells] == cells.step; }

    /// Whether these are all the cells of 16 bytes: vectors are aligned to their size.
    static bool is_line(Cells cells) { return cells.count > 1 && cells.count * cells.step == kLineCells; }

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

    [[gnu::noinline]] void remember_reader(Cells cells, int thread, std::uint32_t warp_interval, SourceSite site) {
        for (std::size_t i = 0; i < cells.count; ++i) {
            Cell& c = cells_[cells.first + i * cells.step];
            Sites& sites = sites_[cells.first + i * cells.step];
            // Earlier reads of this warp that a __syncwarp() already orders before this one need no memory of their
            // own: whatever races with them races with this read too.
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
        if (!is_line(cells)) lines_[cells.first / kLineCells] = 0;
    }

    static bool reads_race_with(const Cell& c, int thread, std::uint32_t warp_interval) {
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
    std::unique_ptr<std::byte[], Free> memory_;
    std::size_t bytes_ = 0, capacity_ = 0;
    std::vector<Cell> cells_;
    std::vector<Sites> sites_;  // of cells_
    // For each 16 bytes: the step from cell to cell of elements whose first cell speaks for all to readers; 0 if nobody
    // knows.
    std::vector<std::uint8_t> lines_;
    std::vector<Region> regions_;
    std::size_t copies_in_flight_ = 0;
    // Intervals only grow, across blocks too: what an earlier block left in the shadow is older than first_interval_.
    std::uint32_t first_interval_ = 1, block_interval_ = 1, last_interval_ = 1;
};

}  // namespace cpu
}  // namespace simt
