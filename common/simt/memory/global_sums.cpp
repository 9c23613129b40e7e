#include "common/simt/memory/global_sums.h"

#include <utility>

namespace simt {
inline namespace cpu {

void GlobalSums::Log::add(void* to, const void* values, std::size_t count, std::size_t bytes, Add how) {
    const auto* const from = static_cast<const std::byte*>(values);
    constexpr std::size_t alignment = 16;  // of the first of `values`, as of any type's
    values_.resize((values_.size() + alignment - 1) / alignment * alignment);
    rows_.push_back({to, count, values_.size(), how});
    values_.insert(values_.end(), from, from + bytes);
}

void GlobalSums::Log::make() {
    for (const Row& row : rows_) row.how(row.to, values_.data() + row.first, row.count);
    rows_.clear();
    values_.clear();
}

void GlobalSums::end_block(std::uint64_t block, Log& log) {
    const std::scoped_lock lock(mutex_);
    waiting_.emplace(block, std::move(log));
    log = {};
    for (auto first = waiting_.begin(); first != waiting_.end() && first->first == next_; first = waiting_.begin()) {
        first->second.make();
        waiting_.erase(first);
        ++next_;
    }
    next_changed_.notify_all();
}

void GlobalSums::make_now(std::uint64_t block, Log& log) {
    std::unique_lock lock(mutex_);
    next_changed_.wait(lock, [&] { return next_ == block || in_any_order_; });
    log.make();
}

void GlobalSums::make_in_any_order() {
    const std::scoped_lock lock(mutex_);
    in_any_order_ = true;
    next_changed_.notify_all();
}

}  // namespace cpu
}  // namespace simt
