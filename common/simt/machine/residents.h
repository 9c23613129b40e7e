#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "common/simt/device/device.h"
#include "common/simt/report/machine_error.h"
#include "common/simt/report/source_site.h"

namespace simt {
inline namespace cpu {

/// The blocks of a launch that have begun and not ended, on all workers: as many as fit the imitated device at once.
///
/// Where all of them wait, and nothing has changed that any of them could find, none of them will ever go on. Workers
/// find that out together: each says what it has seen, and for how long nothing was new. Until then, who has nothing to
/// do sleeps.
class Residents {
  public:
    /// `capacity`: blocks that fit the device. `workers`: so many threads of the operating system run blocks.
    Residents(std::size_t capacity, std::size_t per_multiprocessor, int workers);
    Residents(const Residents&) = delete;
    Residents& operator=(const Residents&) = delete;

    /// How many fit on a multiprocessor of the device, by all that is known; and so on all of them.
    static std::size_t per_multiprocessor(const Device& device, int threads, std::size_t shared_bytes);

    /// So many blocks want to begin. Whether there is room.
    bool take_room(std::size_t blocks);
    /// There were no more to begin after all.
    void give_room_back(std::size_t blocks) {
        here_ -= blocks;
        begun_ -= blocks;
    }
    /// One of them has ended.
    void leave(std::uint64_t number);

    /// What somebody in a block waits for, in words, and where.
    struct Wait {
        std::array<unsigned, 3> block{};
        int thread = -1;
        SourceSite site{};
        std::string what{};
    };
    /// Block `number` can do nothing but wait.
    void note_wait(std::uint64_t number, Wait wait);

    /// Some block has come to wait for another one.
    void note_that_blocks_wait() {
        if (!anybody_waits_.load(std::memory_order_relaxed)) anybody_waits_ = true;
    }

    /// Whether any block has ever waited for another one.
    bool anybody_waits() const { return anybody_waits_.load(); }

    /// Somebody has changed what others may find. Tell it after the change; need not be told before anybody waits.
    void note_change() {
        changes_.fetch_add(1);
        wake();
    }
    std::uint64_t changes() const { return changes_.load(); }

    /// All blocks of this worker have long found nothing new, and so many changes were noted when that began.
    void is_patient(int worker, std::uint64_t changes) {
        patience_[std::size_t(worker)] = changes + 1;
        if (none_can_go_on(changes)) wake();
    }
    void is_at_work(int worker) { patience_[std::size_t(worker)] = 0; }
    void is_done(int worker) {
        patience_[std::size_t(worker)] = kDone;
        wake();
    }

    /// One more worker finds nothing new, or will never again; and one fewer. While all are so, those that are not
    /// patient yet do not rest: only by further turns can they find out whether that is the end.
    void note_idle() {
        if (idle_.fetch_add(1) + 1 == workers_) wake();
    }
    void note_busy() { idle_.fetch_sub(1); }

    /// The worker is idle, and sleeps: until there are more than so many changes, or it is time to be patient, or that
    /// is the end.
    void rest(int worker, std::uint64_t changes);

    /// Whether all workers are patient, with the same number of changes.
    bool none_can_go_on(std::uint64_t changes) const;

    /// The report that follows from it, of a grid of `count` blocks; and the lowest block that waits.
    MachineError::Report stuck(std::size_t count, std::uint64_t& lowest) const;

  private:
    static constexpr std::uint64_t kDone = UINT64_MAX;

    /// Calls those who rest. Of many changes the first one does, until somebody rests again.
    void wake() {
        if (!anybody_rests_.load() || !anybody_rests_.exchange(false)) return;
        calls_.fetch_add(1);
        calls_.notify_all();
    }

    const std::size_t capacity_, per_multiprocessor_;
    const int workers_;
    std::unique_ptr<std::atomic<std::uint64_t>[]> patience_;  // by worker; 0: it works
    std::atomic<std::uint64_t> changes_ = 0;
    std::atomic<bool> anybody_waits_ = false, anybody_rests_ = false;
    std::atomic<int> idle_ = 0, calls_ = 0;
    std::atomic<std::size_t> here_ = 0, begun_ = 0;
    mutable std::mutex mutex_;
    std::map<std::uint64_t, Wait> waits_;  // by number of the block; also of blocks that went on since
};

}  // namespace cpu
}  // namespace simt
