#pragma once

#include <cstddef>

#include "common/simt/memory/sanitizers.h"

namespace simt {
inline namespace cpu {

/// The stacks of a block's threads: one mapping, a guard page below each stack, pages touched only when used.
class FiberStacks {
  public:
    FiberStacks() = default;
    ~FiberStacks();
    FiberStacks(const FiberStacks&) = delete;
    FiberStacks& operator=(const FiberStacks&) = delete;

    void reserve(int count);
    void* top_of(int fiber) const;
    const void* bottom_of(int fiber) const;
    static std::size_t usable_bytes();

  private:
    static constexpr std::size_t kGuardBytes = 4096;
    static constexpr std::size_t kStackBytes = (128 << 10) + kSanitizerStackBytes + kGuardBytes;
    std::byte* base_ = nullptr;
    int count_ = 0;
};

}  // namespace cpu
}  // namespace simt
