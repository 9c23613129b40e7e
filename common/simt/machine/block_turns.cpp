#include "common/simt/machine/block_turns.h"

#include <algorithm>
#include <bit>
#include <string>

#include "common/simt/machine/splitmix64.h"

// Whose turn it is: the thread that goes on when another one waits; who sleeps, and who is woken.

namespace simt {
inline namespace cpu {

Block::Arrival Block::let_next_run(Fiber& fiber) {
    const int next = next_runnable();
    return {&fiber, make_current(fibers_[next], next)};
}

int Block::next_runnable() {
    const int own = warp_index();
    const std::uint32_t runnable = warps_[own].runnable;
    if (runnable) {
        const std::uint32_t later = runnable & static_cast<std::uint32_t>(~0ull << (lane() + 1));
        return own * 32 + std::countr_zero(later ? later : runnable);
    }
    if (warps_[own].pending_count == 0) traffic.warp_meets(own);  // at the barrier
    do {
        if (const int thread = find_runnable(own); thread >= 0) return thread;
    } while (let_something_happen() || wait_for_cluster());
    report_stuck();
}

/// The first thread that can run of the first warp that has one, after the running one; or of one that is drawn.
int Block::find_runnable(int own) {
    const int warps = int(warps_.size());
    const int after = drawn_ ? int((drawn_ = splitmix64(drawn_)) % unsigned(warps)) : 1;
    for (int i = 0; i < warps; ++i) {
        const int w = (own + after + i) % warps;
        if (!warps_[w].runnable) continue;
        enter_warp(w);
        return w * 32 + std::countr_zero(warps_[w].runnable);
    }
    return -1;
}

bool Block::let_something_happen() {
    for (const auto& [kind, companion] : companions_)
        if (companion->let_something_happen()) {
            spins_.note_news();
            return true;
        }
    return false;
}

/// Another thread of the block that can run goes on, and then, some time, the running one. False if there is none.
bool Block::let_sibling_run() {
    Fiber& fiber = *fiber_;
    Warp& w = *warp_;
    const int own = current_thread_;
    const std::uint32_t bit = 1u << lane();
    w.runnable &= ~bit;
    const std::uint32_t later = w.runnable & static_cast<std::uint32_t>(~0ull << (lane() + 1));
    const int next = later ? own / 32 * 32 + std::countr_zero(later) : find_runnable(own / 32);
    w.runnable |= bit;
    if (next < 0) return false;
    wait({&fiber, make_current(fibers_[next], next)});
    return true;
}

void Block::sleep(const Awaited& object, SourceSite site) {
    Fiber& fiber = *fiber_;
    fiber.asleep_on = &object;
    fiber.asleep_at = site;
    if (is_looked_at()) [[unlikely]]
        look_at_sleeper(site);
    wait(let_others_run(*warp_, fiber, current_thread_));
}

void Block::wake(const Awaited& object) {
    for (int thread = 0; thread < threads_; ++thread) {
        if (fibers_[thread].asleep_on != &object) continue;
        fibers_[thread].asleep_on = nullptr;
        warps_[thread / 32].runnable |= 1u << thread % 32;
    }
}

bool Block::is_awaited(const Awaited& object) const {
    return std::ranges::any_of(fibers_, [&](const Fiber& fiber) { return fiber.asleep_on == &object; });
}

bool Block::let_others_go_first(SourceSite site) {
    if (is_looked_at()) [[unlikely]]
        look_at_sleeper(site);
    return let_sibling_run() || let_something_happen();
}

void Block::note_find(const LookedAt& place, std::uint64_t bits) {
    if (!spins_.finds(current_thread_, reinterpret_cast<std::uintptr_t>(place.address), bits, threads_)) return;
    int runnable = 0;
    for (const Warp& w : warps_) runnable += std::popcount(w.runnable);
    if (++turns_given_ < runnable) {
        let_sibling_run();
        return;
    }
    turns_given_ = 0;
    looked_at_ = place;
    looking_thread_ = current_thread_;
    stand_still();
}

/// Nobody in the block can do anything but wait for other blocks. The next go_on() comes back here.
void Block::stand_still() {
    Fiber& fiber = *fiber_;
    stands_still_ = true;
    launch_->global.sums.make_in_any_order();
    launch_->residents.note_that_blocks_wait();
    fiber.sanitized.leave_for(sanitized_home_);
    switch_stack(&next_, home_);
    fiber.sanitized.arrive(sanitized_home_);
}

/// No thread can go on, until another block of the cluster does something. False: there is none.
bool Block::wait_for_cluster() {
    if (!cluster_ || cluster_->size() == 1) return false;
    looking_thread_ = -1;
    stand_still();
    spins_.note_news();  // or this turn ends as the last one did
    if (std::ranges::none_of(warps_, [](const Warp& w) { return w.runnable != 0; })) spins_.take_news();
    return true;
}

void Block::let_cluster_go_first() {
    if (!drawn_ || (drawn_ = splitmix64(drawn_)) % 3 != 0) return;
    spins_.note_news();
    looking_thread_ = -1;
    stand_still();
}

Residents::Wait Block::awaits() const {
    Residents::Wait wait{.block = {index_.x, index_.y, index_.z}};
    if (looking_thread_ < 0) {
        const MachineError::Report stuck = stuck_report();
        wait.thread = stuck.first.thread;
        wait.site = stuck.first.site;
        wait.what = stuck.what;
        return wait;
    }
    wait.thread = looking_thread_;
    wait.site = looked_at_.site;
    const auto address = reinterpret_cast<std::uintptr_t>(looked_at_.address);
    wait.what = "thread " + std::to_string(looking_thread_) + " waits for another value of " +
                (looked_at_.tensor >= 0 ? global_element_name(looked_at_.tensor, address)
                 : looked_at_.tensor == LookedAt::kShared
                     ? shared.element_name(shared.offset_of(looked_at_.address), looking_thread_)
                     : std::string("what lies at an address")) +
                " at " + looked_at_.site.text();
    return wait;
}

}  // namespace cpu
}  // namespace simt
