#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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
/// The shadow has a cell for every two bytes, because tiles of 16-bit types need it. A tile of wider elements uses
/// every second or fourth cell only.
class SharedMemory {
  public:
    static constexpr std::size_t kAlignment = 1024;
    static constexpr std::size_t kCellBytes = 2;
    static constexpr std::size_t kNowhereBytes = 64;

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

    /// Poisoned memory beyond what any tile covers: where accesses out of bounds go while the machine is lenient.
    void* nowhere();

    void open_block_interval() { ++block_interval_; }

    /// Remembers a tile for messages; every thread of the block carves the same tiles, the first one is recorded.
    void name_region(const Region& region);

    /// "K_j(3, 5)" for the element at `offset`.
    std::string element_name(std::size_t offset) const;

    void read(std::size_t offset, std::size_t bytes, std::size_t element_bytes, int thread, std::uint32_t warp_interval,
              SourceSite site) {
        for (std::size_t cell = offset / kCellBytes; cell < (offset + bytes) / kCellBytes;
             cell += element_bytes / kCellBytes)
            read_cell(cell, thread, warp_interval, site);
    }

    void write(std::size_t offset, std::size_t bytes, std::size_t element_bytes, int thread,
               std::uint32_t warp_interval, SourceSite site) {
        for (std::size_t cell = offset / kCellBytes; cell < (offset + bytes) / kCellBytes;
             cell += element_bytes / kCellBytes)
            write_cell(cell, thread, warp_interval, site);
    }

    /// An asynchronous copy is on its way to these bytes: to issue it is a write, and until land() whoever reads or
    /// writes them is wrong.
    void take_off(std::size_t offset, std::size_t bytes, std::size_t element_bytes, int thread,
                  std::uint32_t warp_interval, SourceSite site);

    /// The copy has arrived: the bytes count as written by `thread` in its present interval.
    void land(std::size_t offset, std::size_t bytes, std::size_t element_bytes, int thread, std::uint32_t warp_interval,
              SourceSite site);

  private:
    enum class Readers : std::uint8_t { one_thread, one_warp, several_warps };

    struct Cell {
        std::uint32_t write_interval = 0, write_warp_interval = 0;
        std::uint32_t read_interval = 0, read_warp_interval = 0;
        // With several readers, two of them: of two warps if there are, so that one always is a stranger to a writer.
        std::uint16_t writer = 0, reader = 0, other_reader = 0;
        Readers readers = Readers::one_thread;
        SourceSite write_site, read_site, other_read_site;
    };

    // What a cell shows while an asynchronous copy fills it: written later than any interval, by a thread that does not
    // exist. So every access meets a conflict in the comparisons that it makes anyway.
    static constexpr std::uint32_t kInFlight = UINT32_MAX;
    static constexpr std::uint16_t kNoThread = UINT16_MAX;

    static bool same_warp(int a, int b) { return a / 32 == b / 32; }

    void read_cell(std::size_t index, int thread, std::uint32_t warp_interval, SourceSite site) {
        Cell& c = cells_[index];
        if (c.write_interval < first_interval_) [[unlikely]]
            uninitialised(index, thread, site);
        if (c.write_interval >= block_interval_ && c.writer != thread &&
            !(same_warp(c.writer, thread) && c.write_warp_interval < warp_interval)) [[unlikely]]
            race("reads", index, thread, site, "wrote", c.writer, c.write_site);

        // Earlier reads of this warp that a __syncwarp() already orders before this one need no memory of their own:
        // whatever races with them races with this read too.
        const bool starts_afresh =
            c.read_interval != block_interval_ || (c.readers != Readers::several_warps && same_warp(c.reader, thread) &&
                                                   c.read_warp_interval < warp_interval);
        if (starts_afresh) {
            c.readers = Readers::one_thread;
        } else if (!same_warp(c.reader, thread)) {
            c.readers = Readers::several_warps;
            remember_other_reader(c);
        } else if (c.reader != thread && c.readers != Readers::several_warps) {
            c.readers = Readers::one_warp;
            remember_other_reader(c);
        }
        c.read_interval = block_interval_;
        c.read_warp_interval = warp_interval;
        c.reader = static_cast<std::uint16_t>(thread);
        c.read_site = site;
    }

    void write_cell(std::size_t index, int thread, std::uint32_t warp_interval, SourceSite site) {
        Cell& c = cells_[index];
        if (c.write_interval >= block_interval_ && c.writer != thread &&
            !(same_warp(c.writer, thread) && c.write_warp_interval < warp_interval)) [[unlikely]]
            race("writes", index, thread, site, "wrote", c.writer, c.write_site);
        if (c.read_interval == block_interval_ && reads_race_with(c, thread, warp_interval)) [[unlikely]] {
            const bool other =
                c.reader == thread || (c.readers == Readers::several_warps && same_warp(c.reader, thread));
            race("writes", index, thread, site, "read", other ? c.other_reader : c.reader,
                 other ? c.other_read_site : c.read_site);
        }
        c.write_interval = block_interval_;
        c.write_warp_interval = warp_interval;
        c.writer = static_cast<std::uint16_t>(thread);
        c.write_site = site;
    }

    static void remember_other_reader(Cell& c) {
        c.other_reader = c.reader;
        c.other_read_site = c.read_site;
    }

    static bool reads_race_with(const Cell& c, int thread, std::uint32_t warp_interval) {
        switch (c.readers) {
            case Readers::several_warps:
                return true;
            case Readers::one_thread:
                return c.reader != thread && !(same_warp(c.reader, thread) && c.read_warp_interval < warp_interval);
            case Readers::one_warp:
                return !(same_warp(c.reader, thread) && c.read_warp_interval < warp_interval);
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
    std::vector<Region> regions_;
    std::size_t copies_in_flight_ = 0;
    // Intervals only grow, across blocks too: what an earlier block left in the shadow is older than first_interval_.
    std::uint32_t first_interval_ = 1, block_interval_ = 1;
};

}  // namespace cpu
}  // namespace simt
