#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace simt {
inline namespace cpu {

/// What launches have done with, for those that come. Freed, it may go back to the system, as chance has it, and come
/// again through a page fault for every 4 KiB: a quarter of the time of a checked softmax. For any thread.
template <class T>
class Spare {
  public:
    /// Keeps so many at most.
    explicit Spare(std::size_t most) : most_(most) {}

    /// A new one, or one as whoever had it left it.
    std::unique_ptr<T> take() {
        const std::scoped_lock lock(mutex_);
        if (kept_.empty()) return std::make_unique<T>();
        std::unique_ptr<T> last = std::move(kept_.back());
        kept_.pop_back();
        return last;
    }

    void keep(std::unique_ptr<T> thing) {
        const std::scoped_lock lock(mutex_);
        if (kept_.size() < most_) kept_.push_back(std::move(thing));
    }

  private:
    const std::size_t most_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<T>> kept_;
};

}  // namespace cpu
}  // namespace simt
