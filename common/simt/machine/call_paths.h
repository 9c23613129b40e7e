#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/simt/report/source_site.h"

namespace simt {
inline namespace cpu {

/// The calls that led from the beginning of a kernel to a barrier or a warp collective, as the compiler left them. Two
/// threads have come the same way if they have the same path, which is one object.
struct CallPath {
    std::uintptr_t from = 0;   ///< where the machine returns to
    std::uintptr_t depth = 0;  ///< bytes of the thread's stack that are in use there
    /// Where the functions around that return to, up to the kernel. None if the kernel itself calls the machine.
    std::vector<std::uintptr_t> returns_to{};
    std::vector<std::uintptr_t> slots{};  ///< where on the stack these words stand, in bytes from its top

    /// Whether it takes more than `from` to tell it from others.
    bool has_callers() const { return !returns_to.empty(); }

    /// All of it, innermost first, as MachineError::Report::calls.
    std::vector<std::uintptr_t> calls() const {
        std::vector<std::uintptr_t> all{from};
        // One by one: in a copy of all at once ThreadSanitizer would see a race between the fibers of a worker.
        for (const std::uintptr_t call : returns_to) all.push_back(call);
        return all;
    }
};

/// The lines where two threads went different ways.
struct Parting {
    SourceSite one, other;
};

/// The paths that the threads of a worker's blocks have come. To unwind a stack takes microseconds, so that it is done
/// once a path; afterwards a few words of the stack tell which one it is.
class CallPaths {
  public:
    /// The path of a thread that calls the machine from the kernel itself, to which the machine returns at `from`. Null
    /// if it does not, or has not done so lately.
    const CallPath* path_without_callers(std::uintptr_t from) const {
        const Recent& recent = recent_[recent_place(from)];
        return recent.from == from ? recent.path : nullptr;
    }

    /// The path of the running thread. `from`: where the machine returns to. `frame`: a place on the stack that depends
    /// on the path alone. `kernel`: the function whose callers are of no interest.
    const CallPath& path_here(std::uintptr_t from, const std::byte* frame, const std::byte* stack_top,
                              const void* kernel) {
        const auto depth = std::uintptr_t(stack_top - frame);
        const CallPath* const recent = recent_[recent_place(from)].path;
        if (recent && is_path(*recent, from, depth, stack_top)) [[likely]]
            return *recent;
        return find_path(from, depth, stack_top, kernel);
    }

    /// Where two threads parted that stand at the same line of the same function, but by different paths. Nothing if
    /// both paths are one in the source: compilers copy code, of loops most of all. Nothing either where the program
    /// does not know its lines.
    const std::optional<Parting>& parting(const CallPath& one, const CallPath& other);

  private:
    // An unrolled loop alone may have a hundred places, and two that share an entry drive each other out at each
    // meeting.
    static constexpr unsigned kRecentBits = 12;
    static std::size_t recent_place(std::uintptr_t from) {
        return std::size_t(from * 0x9e3779b97f4a7c15u >> (64 - kRecentBits));  // spreads neighbours (Fibonacci hashing)
    }

    static bool is_path(const CallPath& path, std::uintptr_t from, std::uintptr_t depth, const std::byte* stack_top) {
        if (path.from != from || path.depth != depth) return false;
        for (std::size_t i = 0; i < path.slots.size(); ++i)
            if (word_at(stack_top - path.slots[i]) != path.returns_to[i]) return false;
        return true;
    }
    static std::uintptr_t word_at(const std::byte* place) { return *reinterpret_cast<const std::uintptr_t*>(place); }

    [[gnu::noinline]] const CallPath& find_path(std::uintptr_t from, std::uintptr_t depth, const std::byte* stack_top,
                                                const void* kernel);

    struct Recent {
        std::uintptr_t from = 0;  // of a path without callers, of which this says all; 0 of others
        const CallPath* path = nullptr;
    };
    std::array<Recent, std::size_t{1} << kRecentBits> recent_{};
    std::multimap<std::pair<std::uintptr_t, std::uintptr_t>, CallPath> paths_;  // by `from` and `depth`
    std::map<std::pair<const CallPath*, const CallPath*>, std::optional<Parting>> partings_;
};

}  // namespace cpu
}  // namespace simt
