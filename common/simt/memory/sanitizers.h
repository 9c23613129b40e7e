#pragma once

// What AddressSanitizer and ThreadSanitizer must be told of a program that switches between stacks by itself. A build
// with one of them (LADDER_SANITIZER) defines SIMT_ADDRESS_SANITIZER or SIMT_THREAD_SANITIZER for all of its files; in
// any other build everything here is empty, and costs nothing.
//
// To ThreadSanitizer each thread of a block is a thread, and only barriers order them: a switch passes for nothing. The
// machine's own files are compiled without instrumentation, since its threads share its data as no other threads may.

#include <cstddef>

#ifdef SIMT_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef SIMT_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace simt {
inline namespace cpu {

/// Whether a sanitizer watches this program, and handles the signals that stray pointers raise.
#if defined(SIMT_ADDRESS_SANITIZER) || defined(SIMT_THREAD_SANITIZER)
inline constexpr bool kHasSanitizer = true;
#else
inline constexpr bool kHasSanitizer = false;
#endif

#if defined(SIMT_ADDRESS_SANITIZER)

/// AddressSanitizer watches static arrays, but no thread_local ones. So a raw `__shared__` array is static then, and
/// only one block may run at a time.
inline constexpr bool kOneBlockAtATime = true;
inline constexpr bool kHidesMachine = false;

/// What a sanitizer needs of a stack, most of all to write its report.
inline constexpr std::size_t kSanitizerStackBytes = 512 << 10;

/// A stack, as AddressSanitizer knows it.
class SanitizedFiber {
  public:
    void set_stack(const void* bottom, std::size_t bytes) {
        bottom_ = bottom;
        bytes_ = bytes;
    }
    /// This stack was running when the others were set up.
    void start_here() { bytes_ = 0; }

    /// Just before the switch, on the old stack. `for_good`: it will not be switched back to.
    void leave_for(const SanitizedFiber& next, bool for_good = false) {
        __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack_, next.bottom_, next.bytes_);
    }
    /// Just after the switch, on the new stack. The first to arrive comes from `home`.
    void arrive(SanitizedFiber& home) {
        const void* bottom = nullptr;
        std::size_t bytes = 0;
        __sanitizer_finish_switch_fiber(fake_stack_, &bottom, &bytes);
        fake_stack_ = nullptr;
        if (home.bytes_ == 0) home.set_stack(bottom, bytes);
    }
    /// Forgets what the functions on this stack, which will never return, have marked.
    void abandon() { __asan_unpoison_memory_region(bottom_, bytes_); }

  private:
    const void* bottom_ = nullptr;
    std::size_t bytes_ = 0;
    void* fake_stack_ = nullptr;
};

#elif defined(SIMT_THREAD_SANITIZER)

inline constexpr bool kOneBlockAtATime = false;

/// Whether a kernel may have nothing of the machine inlined that its threads share: it would be instrumented with the
/// kernel, and reported.
inline constexpr bool kHidesMachine = true;
inline constexpr std::size_t kSanitizerStackBytes = 512 << 10;

/// A thread, as ThreadSanitizer knows it.
class SanitizedFiber {
  public:
    SanitizedFiber() = default;
    ~SanitizedFiber() { abandon(); }
    SanitizedFiber(SanitizedFiber&& other) noexcept : fiber_(other.fiber_), created_(other.created_) {
        other.created_ = false;
    }
    SanitizedFiber& operator=(SanitizedFiber&&) = delete;

    void set_stack(const void*, std::size_t) {
        if (created_) return;
        fiber_ = __tsan_create_fiber(0);
        created_ = true;
    }
    void start_here() { fiber_ = __tsan_get_current_fiber(); }
    void leave_for(const SanitizedFiber& next, bool = false) {
        __tsan_switch_to_fiber(next.fiber_, __tsan_switch_to_fiber_no_sync);
    }
    void arrive(SanitizedFiber&) {}
    void abandon() {
        if (created_) __tsan_destroy_fiber(fiber_);
        created_ = false;
    }

  private:
    void* fiber_ = nullptr;
    bool created_ = false;
};

#else

inline constexpr bool kOneBlockAtATime = false;
inline constexpr bool kHidesMachine = false;
inline constexpr std::size_t kSanitizerStackBytes = 0;

struct SanitizedFiber {
    void set_stack(const void*, std::size_t) {}
    void start_here() {}
    void leave_for(const SanitizedFiber&, bool = false) {}
    void arrive(SanitizedFiber&) {}
    void abandon() {}
};

#endif

/// A point that threads pass together. What each did before `enter` happens before what any does after `pass`.
class SanitizedMeeting {
  public:
#ifdef SIMT_THREAD_SANITIZER
    void enter() { __tsan_release(this); }
    void pass() { __tsan_acquire(this); }

  private:
    char identity_ = 0;
#else
    void enter() {}
    void pass() {}
#endif
};

/// A point that threads pass together again and again. Two meetings take turns: with one alone, a thread that is quick
/// would enter the next time before a slow one has passed, and seem to be ordered before it.
class SanitizedBarrier {
  public:
    SanitizedMeeting& next() { return meetings_[odd_]; }
    void complete() { odd_ = !odd_; }

  private:
    SanitizedMeeting meetings_[2];
    bool odd_ = false;
};

/// Makes accesses to these bytes an error, or allows them again.
inline void forbid_access([[maybe_unused]] const void* p, [[maybe_unused]] std::size_t bytes) {
#ifdef SIMT_ADDRESS_SANITIZER
    __asan_poison_memory_region(p, bytes);
#endif
}
inline void allow_access([[maybe_unused]] const void* p, [[maybe_unused]] std::size_t bytes) {
#ifdef SIMT_ADDRESS_SANITIZER
    __asan_unpoison_memory_region(p, bytes);
#endif
}

}  // namespace cpu
}  // namespace simt
