#include "common/simt/machine/fiber_stacks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <system_error>

#include "common/simt/memory/sanitizers.h"

namespace simt {
inline namespace cpu {
namespace {

constexpr std::size_t kUsableBytes = (128 << 10) + kSanitizerStackBytes;

}  // namespace

// Pages have 4 KiB on x86-64; on 64-bit Arm 4, 16 or 64, as the kernel was built. Only whole pages can be protected.
FiberStacks::FiberStacks()
    : guard_bytes_(std::size_t(sysconf(_SC_PAGESIZE))),
      stack_bytes_(guard_bytes_ + (kUsableBytes + guard_bytes_ - 1) / guard_bytes_ * guard_bytes_) {}

FiberStacks::~FiberStacks() {
    if (base_) munmap(base_, count_ * stack_bytes_);
}

void FiberStacks::reserve(int count) {
    if (count <= count_) return;
    if (base_) munmap(base_, count_ * stack_bytes_);
    count_ = 0;
    void* mapped =
        mmap(nullptr, count * stack_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
        base_ = nullptr;
        throw std::bad_alloc();
    }
    base_ = static_cast<std::byte*>(mapped);
    count_ = count;
    for (int i = 0; i < count; ++i) {
        // Each guard is a mapping, of which a process may have so many (vm.max_map_count). Large blocks on a hundred
        // cores reach that, and run without guards rather than not at all.
        if (mprotect(base_ + i * stack_bytes_, guard_bytes_, PROT_NONE) != 0 && errno != ENOMEM)
            throw std::system_error(errno, std::generic_category(), "a guard below a thread's stack could not be had");
    }
}

void* FiberStacks::top_of(int fiber) const {
    // Stacks that start at equal offsets of their pages would fight for the same cache sets.
    return base_ + (fiber + 1) * stack_bytes_ - (fiber % 32) * 128;
}

const void* FiberStacks::bottom_of(int fiber) const { return base_ + fiber * stack_bytes_ + guard_bytes_; }

}  // namespace cpu
}  // namespace simt
