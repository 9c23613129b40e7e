#include "common/simt/machine/fiber_stacks.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include "common/simt/memory/sanitizers.h"

namespace simt {
inline namespace cpu {
namespace {

// What the calls of a kernel and of the machine take beside the locals.
constexpr std::size_t kCallBytes = 64 << 10;
constexpr std::size_t kUsableBytes = FiberStacks::kLocalBytes + kCallBytes + kSanitizerStackBytes;

// Where so much address space is not to be had (ulimit -v, or a system that promises no more than it has).
constexpr std::size_t kFewUsableBytes = (128 << 10) + kSanitizerStackBytes;

// Compilers that probe a large frame piece by piece do so at this distance at most: none steps over a guard of it.
constexpr std::size_t kGuardBytes = 64 << 10;

constexpr std::size_t kTouchedBytesToKeep = 64 << 20;

std::size_t round_up(std::size_t bytes, std::size_t page) { return (bytes + page - 1) / page * page; }

/// Pages that the calling OS thread has touched for the first time.
long pages_of_this_thread() {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
}

}  // namespace

// Pages have 4 KiB on x86-64; on 64-bit Arm 4, 16 or 64, as the kernel was built. Only whole pages can be protected.
FiberStacks::FiberStacks()
    : page_bytes_(std::size_t(sysconf(_SC_PAGESIZE))),
      guard_bytes_(round_up(kGuardBytes, page_bytes_)),
      usable_bytes_(round_up(kUsableBytes, page_bytes_)) {}

FiberStacks::~FiberStacks() { unmap(); }

void FiberStacks::unmap() {
    if (base_) munmap(base_, count_ * stack_bytes_);
    base_ = nullptr;
    count_ = 0;
}

bool FiberStacks::map(int count, std::size_t usable_bytes) {
    usable_bytes_ = round_up(usable_bytes, page_bytes_);
    // One page more, since stacks at multiples of 64 KiB would fight for the same sets of the second-level cache.
    stack_bytes_ = guard_bytes_ + usable_bytes_ + page_bytes_;
    void* mapped =
        mmap(nullptr, count * stack_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return false;
    base_ = static_cast<std::byte*>(mapped);
    count_ = count;
    return true;
}

void FiberStacks::reserve(int count) {
    if (count <= count_) return;
    unmap();
    if (!map(count, kUsableBytes) && !map(count, kFewUsableBytes)) throw std::bad_alloc();
    for (int i = 0; i < count; ++i) {
        // Each guard is a mapping, of which a process may have so many (vm.max_map_count). Large blocks on a hundred
        // cores reach that, and run without guards rather than not at all.
        if (mprotect(base_ + i * stack_bytes_, guard_bytes_, PROT_NONE) != 0 && errno != ENOMEM)
            throw std::system_error(errno, std::generic_category(), "a guard below a thread's stack could not be had");
    }
}

std::optional<int> FiberStacks::fiber_at(std::uintptr_t address) const {
    const std::uintptr_t offset = address - reinterpret_cast<std::uintptr_t>(base_);
    if (!base_ || offset >= count_ * stack_bytes_) return std::nullopt;
    return int(offset / stack_bytes_);
}

// The system keeps no account of one mapping, but one of all pages that an OS thread was given: few unless stacks are
// deep. Whatever else they were, the worst is that some are had anew.
void FiberStacks::end_launch() {
    if (count_ * usable_bytes_ <= kTouchedBytesToKeep) return;
    static thread_local long pages_seen = 0;
    const long pages = pages_of_this_thread();
    pages_touched_ += pages - std::exchange(pages_seen, pages);
    if (std::size_t(pages_touched_) * page_bytes_ < kTouchedBytesToKeep) return;
    madvise(base_, count_ * stack_bytes_, MADV_DONTNEED);
    pages_touched_ = 0;
}

void* FiberStacks::top_of(int fiber) const {
    // Stacks that start at equal offsets of their pages would fight for the same cache sets.
    return base_ + fiber * stack_bytes_ + guard_bytes_ + usable_bytes_ - (fiber % 32) * 128;
}

const void* FiberStacks::bottom_of(int fiber) const { return base_ + fiber * stack_bytes_ + guard_bytes_; }

}  // namespace cpu
}  // namespace simt
