#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace simt {
inline namespace cpu {

/// The stacks of a block's threads: one mapping, a guard below each stack, pages touched only when used.
class FiberStacks {
  public:
    FiberStacks();
    ~FiberStacks();
    FiberStacks(const FiberStacks&) = delete;
    FiberStacks& operator=(const FiberStacks&) = delete;

    void reserve(int count);
    void* top_of(int fiber) const;
    const void* bottom_of(int fiber) const;
    std::size_t usable_bytes() const { return usable_bytes_; }

    /// Local memory that CUDA allows a thread.
    static constexpr std::size_t kLocalBytes = 512 << 10;

    /// The fiber whose stack, or whose guard, has this address.
    std::optional<int> fiber_at(std::uintptr_t address) const;

    /// The OS thread that ran fibers on these stacks is done with a launch. Gives their memory back to the system if
    /// much was used: once touched, it would stay.
    void end_launch();

  private:
    bool map(int count, std::size_t usable_bytes);
    void unmap();

    const std::size_t page_bytes_, guard_bytes_;
    std::size_t usable_bytes_;
    std::size_t stack_bytes_ = 0;  ///< with its guard
    long pages_touched_ = 0;
    std::byte* base_ = nullptr;
    int count_ = 0;
};

}  // namespace cpu
}  // namespace simt
