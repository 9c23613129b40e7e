#pragma once

#include <cstddef>

namespace simt {
inline namespace cpu {

/// The stacks of a block's threads: one mapping, a guard page below each stack, pages touched only when used.
class FiberStacks {
  public:
    FiberStacks();
    ~FiberStacks();
    FiberStacks(const FiberStacks&) = delete;
    FiberStacks& operator=(const FiberStacks&) = delete;

    void reserve(int count);
    void* top_of(int fiber) const;
    const void* bottom_of(int fiber) const;
    std::size_t usable_bytes() const { return stack_bytes_ - guard_bytes_; }

  private:
    const std::size_t guard_bytes_;
    const std::size_t stack_bytes_;  ///< with its guard
    std::byte* base_ = nullptr;
    int count_ = 0;
};

}  // namespace cpu
}  // namespace simt
