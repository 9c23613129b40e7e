#include "common/simt/machine/residents.h"

#include <algorithm>
#include <utility>

#include "common/simt/device/occupancy.h"

namespace simt {
inline namespace cpu {

Residents::Residents(std::size_t capacity, std::size_t per_multiprocessor, int workers)
    : capacity_(capacity),
      per_multiprocessor_(per_multiprocessor),
      workers_(workers),
      patience_(std::make_unique<std::atomic<std::uint64_t>[]>(std::size_t(workers))) {}

std::size_t Residents::per_multiprocessor(const Device& device, int threads, std::size_t shared_bytes) {
    const auto by_threads =
        std::size_t(std::max(1, device.max_threads_per_multiprocessor / ((threads + 31) / 32 * 32)));
    for (const DeviceProfile& profile : device_profiles()) {
        if (profile.product != device.name) continue;
        const int blocks = occupancy(profile, {.threads = threads, .shared_bytes = shared_bytes}).resident_blocks;
        return std::size_t(std::max(1, blocks));
    }
    return by_threads;
}

bool Residents::take_room(std::size_t blocks) {
    for (std::size_t here = here_; here + blocks <= capacity_ || here == 0;)
        if (here_.compare_exchange_weak(here, here + blocks)) {
            begun_ += blocks;
            note_change();
            return true;
        }
    return false;
}

void Residents::leave(std::uint64_t number) {
    --here_;
    note_change();
    if (!anybody_waits()) return;
    const std::scoped_lock lock(mutex_);
    waits_.erase(number);
}

void Residents::rest(int worker, std::uint64_t changes) {
    const int calls = calls_;
    anybody_rests_ = true;  // from here on, whoever changes anything calls
    const bool is_patient = patience_[std::size_t(worker)] == changes + 1;
    const bool may_rest = is_patient ? !none_can_go_on(changes) : idle_ < workers_;
    if (changes_ == changes && may_rest) calls_.wait(calls);
}

void Residents::note_wait(std::uint64_t number, Wait wait) {
    const std::scoped_lock lock(mutex_);
    waits_[number] = std::move(wait);
}

bool Residents::none_can_go_on(std::uint64_t changes) const {
    return changes_ == changes && std::all_of(patience_.get(), patience_.get() + workers_, [&](const auto& patience) {
               return patience == kDone || patience == changes + 1;
           });
}

MachineError::Report Residents::stuck(std::size_t count, std::uint64_t& lowest) const {
    constexpr std::size_t kNamed = 6;
    const std::scoped_lock lock(mutex_);
    MachineError::Report report{.fault = Fault::deadlock, .what = "no block can go on: "};
    std::size_t named = 0;
    for (const auto& [number, wait] : waits_) {
        if (named == 0) {
            lowest = number;
            report.block = wait.block;
            report.first = {wait.thread, wait.site, wait.block};
        } else if (named == 1) {
            report.second = {wait.thread, wait.site, wait.block};
        }
        if (++named > kNamed) break;
        report.what += (named > 1 ? "; in " : "in ") + text_of(wait.block) + " " + wait.what;
    }
    if (waits_.size() > kNamed) report.what += "; and so on, " + std::to_string(waits_.size()) + " blocks in all";
    if (const std::size_t left = count - begun_; left > 0) {
        report.what += ". " + std::to_string(left) + " of " + std::to_string(count) +
                       " blocks have not begun: " + std::to_string(capacity_) + " are on the device at once, " +
                       std::to_string(per_multiprocessor_) + " on each multiprocessor, and one begins when one ends";
        report.advice =
            "no block may wait for one that begins only when others have ended: launch no more blocks than fit, and "
            "let each do the work of several; or let blocks draw tickets as they begin, and wait for lower ones alone";
    } else {
        report.advice =
            "all blocks have begun, and nobody is left who could change what these find: look for a flag that nobody "
            "raises, for two blocks that each wait before they hand over, and for a counter that was not set back";
    }
    return report;
}

}  // namespace cpu
}  // namespace simt
