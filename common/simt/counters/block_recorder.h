#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/simt/counters/event_recorder.h"
#include "common/simt/memory/global_memory.h"
#include "common/simt/memory/shared_memory.h"
#include "common/simt/report/source_site.h"
#include "common/simt/report/trace.h"

namespace simt {
inline namespace cpu {

/// Makes moments of what the threads of a block do, while a TraceLog listens.
///
/// The machine runs a thread up to the next point where it waits for others; so between two barriers the threads' deeds
/// come in one after the other, though on a GPU they happen side by side. Each thread's are kept as a stream. At the
/// barrier the streams are cut into beats, and the n-th beats of all threads belong together. A beat ends
///
///   - at a __syncwarp(),
///   - and before a watched value is shown a second time: what led to the new value belongs to the next beat. That cuts
///     loops in which no thread waits for another warp.
///
/// Inside a beat, accesses from one line to one tensor or tile become one box. A moment is then a row of reads, and
/// what follows from them, values shown and writes: the next read from another line begins another. So does a read of
/// global memory that follows one of shared memory, since what shared memory held has then been used.
///
/// In a block with parties, see EventRecorder, the clocks there say to which moment a deed belongs.
class BlockRecorder {
  public:
    /// `launch` is where tensors and tiles are listed.
    void start_block(LaunchTrace& launch, const SharedMemory& shared, int threads);

    void global(bool write, int tensor, const void* address, std::size_t bytes, int thread, SourceSite site) {
        append(thread, {number_of({Kind::global, write, tensor_at(tensor, address), nullptr, site, parties_.agent()}),
                        std::int64_t(reinterpret_cast<std::uintptr_t>(address)), std::int64_t(bytes)});
    }
    void shared(bool write, std::size_t offset, std::size_t bytes, int thread, SourceSite site) {
        parties_.shared(write, offset, bytes, thread);
        append(thread, {number_of({Kind::shared, write, tile_at(offset, thread), nullptr, site, parties_.agent()}),
                        std::int64_t(offset), std::int64_t(bytes)});
    }
    void watch(const char* name, std::int64_t row, std::int64_t column, float value, int thread) {
        append(thread, {number_of({Kind::watch, false, 0, name, {}}), row, column, value});
    }

    void warp_barrier(int warp);
    void block_barrier(SourceSite site) {
        close_interval(site);
        parties_.block_barrier();
    }

    /// What hears of barriers, of copies under way, and of products.
    EventRecorder& parties() { return parties_; }

    /// The machine found the kernel wrong while `thread` ran; -1 where no thread is to be named.
    void fault(int thread) { faulty_thread_ = thread; }

    /// What the block did.
    void take(TracedBlock& block);

  private:
    enum class Kind : std::uint8_t { global, shared, watch };

    /// What a line of the source does: to one tensor, one tile, or under one name.
    struct Deed {
        Kind kind;
        bool write;
        int object;
        const char* name;
        SourceSite site;
        TracedAccess::Agent agent = TracedAccess::Agent::threads;
        friend bool operator==(const Deed&, const Deed&) = default;
        bool is_read() const { return kind != Kind::watch && !write; }
    };

    struct DeedHash {
        std::size_t operator()(const Deed&) const;
    };
    /// How to find an element's place in LaunchTrace::tensors[object].
    struct KnownView {
        GlobalView view;
        int object;
    };

    static constexpr std::uint32_t kWarpBarrier = UINT32_MAX;

    struct Event {
        std::uint32_t deed;
        std::int64_t a, b;  ///< address or offset and bytes; row and column
        float value = 0;
        int moment = 0;  ///< in a block with parties
    };
    using Stream = std::vector<Event>;

    /// Place of a beat between two barriers: warp barriers before it, and new values of watched ones since the last.
    using BeatNumber = std::pair<int, int>;

    struct Cell {
        std::int64_t row, column;
        float value;
    };
    struct Done {
        TracedAccess access{};
        std::vector<Cell> shown{};
    };
    struct Beat {
        std::vector<std::uint32_t> order;  ///< deeds, as the threads come to them
        std::map<std::uint32_t, Done> done;
        bool warp_barrier = false;
        bool faulty = false;
        std::optional<std::uint32_t> faulty_deed = {};  ///< the last one before the fault; absent: it came before any
    };

    /// A moment of a block with parties.
    struct Slice {
        std::vector<std::pair<int, std::uint32_t>> order;  ///< warps and their deeds
        std::map<std::pair<int, std::uint32_t>, Done> done;
        std::optional<SourceSite> barrier;
        bool faulty = false;
    };

    std::uint32_t number_of(const Deed& deed);
    int tensor_at(int tensor, const void* address);
    int tile_at(std::size_t offset, int thread);
    void append(int thread, const Event& event);
    void close_interval(std::optional<SourceSite> barrier);
    void cut_into_beats(const Stream& stream, bool faulty, std::map<BeatNumber, Beat>& beats) const;
    void add(Beat& beat, std::span<const Event> events) const;
    void add_access(TracedAccess& access, const Event& event, const Deed& deed) const;
    TracedAccess access_of(const Event& event, const Deed& deed) const;
    void end_streams();
    void take_parties(TracedBlock& block);
    void add_slice(TracedBlock& block, const Slice& slice);
    void add_moments(const Beat& beat);
    TracedValues values_of(const Deed& deed, const std::vector<Cell>& shown) const;

    LaunchTrace* launch_ = nullptr;
    const SharedMemory* shared_ = nullptr;
    std::vector<Stream> threads_;
    std::size_t events_ = 0;
    std::vector<Deed> deeds_;
    std::unordered_map<Deed, std::uint32_t, DeedHash> numbers_;
    std::vector<KnownView> views_;
    std::vector<TracedMoment> moments_;
    std::optional<int> faulty_thread_;
    EventRecorder parties_;
    std::map<int, Slice> slices_;  ///< by the clocks of parties_
};

}  // namespace cpu
}  // namespace simt
