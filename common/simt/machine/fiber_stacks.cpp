#include "common/simt/machine/fiber_stacks.h"

#include <sys/mman.h>

#include <new>

namespace simt {
inline namespace cpu {

FiberStacks::~FiberStacks() {
    if (base_) munmap(base_, count_ * kStackBytes);
}

void FiberStacks::reserve(int count) {
    if (count <= count_) return;
    if (base_) munmap(base_, count_ * kStackBytes);
    count_ = 0;
    void* mapped =
        mmap(nullptr, count * kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
        base_ = nullptr;
        throw std::bad_alloc();
    }
    base_ = static_cast<std::byte*>(mapped);
    count_ = count;
    for (int i = 0; i < count; ++i) mprotect(base_ + i * kStackBytes, kGuardBytes, PROT_NONE);
}

void* FiberStacks::top_of(int fiber) const {
    // Stacks that start at equal offsets of their pages would fight for the same cache sets.
    return base_ + (fiber + 1) * kStackBytes - (fiber % 32) * 128;
}

const void* FiberStacks::bottom_of(int fiber) const { return base_ + fiber * kStackBytes + kGuardBytes; }

std::size_t FiberStacks::usable_bytes() { return kStackBytes - kGuardBytes; }

}  // namespace cpu
}  // namespace simt
