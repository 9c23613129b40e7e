#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/simt/device/device.h"
#include "common/simt/report/launch_log.h"
#include "common/simt/report/source_site.h"
#include "common/simt/report/trace_events.h"
#include "common/simt/report/traced_access.h"

namespace simt {

/// A tensor in global memory, as the host passed it to a kernel.
struct TracedTensor {
    std::string name;                        ///< as in messages: "K"
    std::size_t element_bytes = 0;           ///< of one element
    std::vector<std::int64_t> extents = {};  ///< outermost first
    /// The same name, type and shape.
    friend bool operator==(const TracedTensor&, const TracedTensor&) = default;
};

/// A tile that a kernel carved from shared memory.
struct TracedTile {
    std::string name;        ///< as in messages: "K_j"
    std::size_t offset = 0;  ///< in bytes, from the start of the block's shared memory
    /// In elements, and the bytes of one.
    int rows = 0, columns = 0, pitch = 0, element_bytes = 0;
    /// Of panel tiles, see SharedMemory::Region.
    int panel_columns = 0;
    unsigned swizzle_bits = 0;
    /// The same tile in the same place.
    friend bool operator==(const TracedTile&, const TracedTile&) = default;
};

/// Values that a kernel showed by simt::watch() under one name, as a dense matrix; absent where it showed none.
struct TracedValues {
    std::string name;  ///< that simt::watch() was given
    /// Where the matrix lies, and how large it is.
    std::int64_t first_row = 0, first_column = 0, rows = 0, columns = 0;
    std::vector<std::optional<float>> values = {};  ///< row by row
};

/// A piece of a block's work that a reader can take in at once: what its threads read, what they made of it, and where
/// they put it. Threads that the machine runs one after the other do the same moment together. In a block whose parties
/// wait for one another at mbarriers, and have copies and products under way, a moment is what each party does up to
/// its next wait.
struct TracedMoment {
    std::vector<TracedAccess> accesses = {};  ///< to memory
    std::vector<TracedValues> values = {};    ///< that the kernel showed
    std::vector<TracedEvent> events = {};     ///< of parties, in the order in which they did it
    std::optional<SourceSite> barrier = {};   ///< the __syncthreads() that ends it, if one does
    bool warp_barrier = false;                ///< a __syncwarp() ends it
    bool fault = false;                       ///< where the machine found the kernel wrong
};

/// What one block did.
struct TracedBlock {
    std::array<unsigned, 3> index{};         ///< blockIdx
    Counters counters = {};                  ///< of this block alone
    bool recorded = false;                   ///< else it was only counted
    std::vector<TracedMoment> moments = {};  ///< in their order
    // Of a block with parties:
    std::vector<TracedParty> parties = {};  ///< in the order of their threads
    std::vector<TracedFill> fills = {};     ///< in the order in which they were asked for
    std::vector<TracedGroup> groups = {};   ///< likewise
    std::vector<TracedStore> stores = {};   ///< likewise
};

/// All that one launch did, block by block in the order of their numbers (x fastest).
struct LaunchTrace {
    std::string kernel;  ///< its name
    /// Blocks along x, y and z, and threads of a block.
    std::array<unsigned, 3> grid{}, block{};
    std::array<unsigned, 3> cluster{1, 1, 1};  ///< blocks of a cluster; their moments are counted alike
    Device device = {};                        ///< that the machine imitated
    std::size_t shared_bytes_per_block = 0;    ///< that the launch asked for
    std::vector<TracedTensor> tensors = {};    ///< in the order in which they were first touched
    std::vector<TracedTile> tiles = {};        ///< likewise
    std::vector<TracedBarrier> barriers = {};  ///< likewise; none where all wait for all
    std::vector<TracedBlock> blocks = {};      ///< all of the grid
};

/// While one is alive, launches that this thread makes on the checked CPU machine leave a trace in it. Blocks then run
/// one after the other. It needs a LaunchLog beside it, since what nobody counts is not seen either.
class TraceLog {
  public:
    /// What a log asks for.
    struct Wanted {
        /// Blocks to record, by number; all others are counted only. Empty: from the first on, as many as the budget
        /// allows.
        std::vector<std::uint64_t> blocks = {};
        /// How much to keep, over all launches: accesses and values, each counted as the bytes that they take in a
        /// file. A block that has begun is recorded to its end; none begins where the largest so far would not fit.
        std::size_t budget_bytes = std::size_t{1} << 20;
    };

    /// Starts to trace; the log that was there before waits.
    explicit TraceLog(Wanted wanted);
    ~TraceLog();
    TraceLog(const TraceLog&) = delete;
    TraceLog& operator=(const TraceLog&) = delete;

    /// The launches so far. Where the machine found a kernel wrong, the last one ends at that moment.
    std::span<const LaunchTrace> launches() const { return launches_; }

    // For the machine:

    /// The log that hears the calling thread's launches; null if there is none.
    static TraceLog* active();
    void begin_launch(LaunchTrace launch);
    bool wants_block(std::uint64_t number) const;
    void end_block(TracedBlock block);
    /// For a fault that came to light when the block was over: marks the block's last moment with an access at `site`.
    void mark_fault(const std::array<unsigned, 3>& block, SourceSite site);
    LaunchTrace& launch() { return launches_.back(); }

  private:
    Wanted wanted_;
    std::size_t used_bytes_ = 0, largest_block_ = 0;
    std::vector<LaunchTrace> launches_;
    TraceLog* outer_;
};

}  // namespace simt
