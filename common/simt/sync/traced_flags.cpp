#include "common/simt/sync/traced_flags.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "common/simt/counters/event_recorder.h"
#include "common/simt/machine/block.h"

namespace simt {
inline namespace cpu {
namespace {

using Kind = TracedEvent::Kind;

/// One release of a flag.
struct Release {
    std::int64_t phase;  ///< that it ended
    int moment;          ///< of the block that made it
};

int number_of(const LaunchTrace& launch, const std::string& flag) {
    const auto listed = std::ranges::find(launch.barriers, flag, &TracedBarrier::name);
    return listed == launch.barriers.end() ? TracedEvent::kNone : int(listed - launch.barriers.begin());
}

/// The last release among a block's events, own or found.
std::optional<Release> last_release(std::span<const TracedEvent> events, int flag) {
    std::optional<Release> last;
    for (const TracedEvent& e : events)
        if (e.kind == Kind::over && e.barrier == flag && (!last || e.number > last->phase))
            last = Release{e.number, e.moment};
    return last;
}

std::optional<Release> last_release(const TracedBlock& block, int flag) {
    std::optional<Release> last;
    for (const TracedMoment& moment : block.moments)
        if (const auto more = last_release(moment.events, flag); more && (!last || more->phase > last->phase))
            last = more;
    return last;
}

std::uint64_t number_in_grid(const TracedBlock& block, const LaunchTrace& launch) {
    const auto [x, y, z] = block.index;
    return x + std::uint64_t{launch.grid[0]} * (y + std::uint64_t{launch.grid[1]} * z);
}

}  // namespace

void trace_flag(Block& block, const AtomicPlace& place, const AtomicUse& use, const AtomicBoard::Post& found,
                bool released) {
    EventRecorder& events = *block.events();
    const int thread = block.thread();
    const bool acquires = use.reads && use.acquires && found.released;
    if (!events.any() || (!acquires && !released)) return;
    const std::string flag = global_element_name(place.tensor, reinterpret_cast<std::uintptr_t>(place.address));
    const LaunchTrace& launch = TraceLog::active()->launch();
    const int number = number_of(launch, flag);
    std::int64_t latest = -1;  // of its phases
    if (const auto here = last_release(events.events(), number)) latest = here->phase;
    const std::int64_t known = latest;
    const std::uint64_t owner =
        found.owner == 0 ? block.global.block() : (found.owner - 1) / SharedMemory::kMostThreads;
    for (const TracedBlock& other : launch.blocks) {
        const std::optional<Release> release = last_release(other, number);
        if (!release) continue;
        latest = std::max(latest, release->phase);
        if (!acquires || number_in_grid(other, launch) != owner || release->phase <= known) continue;
        const auto phase = std::uint64_t(release->phase);
        events.arrived_by(flag, phase, release->moment);
        events.over(flag, phase);
        events.waits(flag, release->phase, thread, place.site);
        events.goes_on(thread);
    }
    if (!released) return;
    events.arrived(flag, std::uint64_t(latest + 1), thread, place.site);
    events.over(flag, std::uint64_t(latest + 1));
}

}  // namespace cpu
}  // namespace simt
