#include <algorithm>
#include <array>
#include <utility>

#include "common/simt/counters/block_recorder.h"

// Moments of a block with parties: what BlockRecorder makes of streams when clocks say what belongs together.

namespace simt {
inline namespace cpu {

void BlockRecorder::end_streams() {
    for (std::size_t thread = 0; thread < threads_.size(); ++thread) {
        for (const Event& event : threads_[thread]) {
            if (event.deed == kWarpBarrier) continue;
            Slice& slice = slices_[event.moment];
            const std::pair deed{int(thread / 32), event.deed};
            const auto [known, is_new] = slice.done.try_emplace(deed);
            if (is_new) slice.order.push_back(deed);
            if (deeds_[event.deed].kind == Kind::watch)
                known->second.shown.push_back({event.a, event.b, event.value});
            else
                add_access(known->second.access, event, deeds_[event.deed]);
        }
        threads_[thread].clear();
    }
    events_ = 0;
}

void BlockRecorder::take_parties(TracedBlock& block) {
    if (faulty_thread_ && *faulty_thread_ >= 0 && std::size_t(*faulty_thread_) < threads_.size())
        slices_[parties_.now(*faulty_thread_)].faulty = true;
    std::vector<bool> acted((threads_.size() + 31) / 32);
    for (const auto& [clock, slice] : slices_)
        for (const auto& [warp, deed] : slice.order) acted[std::size_t(warp)] = true;
    parties_.hand_over(block, std::move(acted));
    for (const TracedEvent& event : parties_.events()) slices_.try_emplace(event.moment);

    // Clocks at which nothing happened take no moment; but blocks that wait for one another count alike: those of a
    // cluster, and those of a launch with flags in global memory, at which no number of arrivals ends a phase.
    const auto [x, y, z] = launch_->cluster;
    const bool count_alike =
        x * y * z > 1 || std::ranges::find(launch_->barriers, 0, &TracedBarrier::arrivals) != launch_->barriers.end();
    if (count_alike && !slices_.empty())
        for (int clock = slices_.rbegin()->first; clock-- > 0;) slices_.try_emplace(clock);
    const int before = int(block.moments.size());
    std::vector<int> clocks;
    for (const auto& [clock, slice] : slices_) {
        clocks.push_back(clock);
        add_slice(block, slice);
    }
    const auto to_moment = [&](int& clock) {
        if (clock != kNever) clock = before + int(std::ranges::lower_bound(clocks, clock) - clocks.begin());
    };
    for (TracedEvent event : parties_.events()) {
        to_moment(event.moment);
        to_moment(event.until);
        block.moments[std::size_t(event.moment)].events.push_back(std::move(event));
    }
    for (TracedFill& fill : block.fills)
        for (int* const moment : {&fill.asked, &fill.full, &fill.first_read, &fill.last_read, &fill.released})
            to_moment(*moment);
    for (TracedGroup& group : block.groups)
        for (int* const moment : {&group.begun, &group.committed, &group.done}) to_moment(*moment);
    for (TracedStore& store : block.stores)
        for (int* const moment : {&store.asked, &store.committed, &store.read, &store.done}) to_moment(*moment);
    slices_.clear();
}

void BlockRecorder::add_slice(TracedBlock& block, const Slice& slice) {
    TracedMoment& moment = block.moments.emplace_back();
    moment.barrier = slice.barrier;
    moment.fault = slice.faulty;
    std::map<std::uint32_t, std::vector<Cell>> shown;
    for (const auto& key : slice.order) {
        const auto& [warp, number] = key;
        const Done& done = slice.done.at(key);
        if (deeds_[number].kind == Kind::watch) {
            std::vector<Cell>& cells = shown[number];
            cells.insert(cells.end(), done.shown.begin(), done.shown.end());
            continue;
        }
        TracedAccess access = done.access;
        access.party = parties_.party_of_warp(warp);
        const auto known =
            std::ranges::find_if(moment.accesses, [&](const TracedAccess& a) { return a.same_deed(access); });
        if (known == moment.accesses.end())
            moment.accesses.push_back(access);
        else
            known->include(access);
    }
    for (const auto& [number, cells] : shown) moment.values.push_back(values_of(deeds_[number], cells));
}

}  // namespace cpu
}  // namespace simt
