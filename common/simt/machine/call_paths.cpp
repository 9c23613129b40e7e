#include "common/simt/machine/call_paths.h"

#include <unwind.h>

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "common/simt/report/source_lines.h"

namespace simt {
inline namespace cpu {
namespace {

/// What is seen of a stack while it is unwound.
struct Walk {
    CallPath& path;
    const std::byte* stack_top;
    std::uintptr_t kernel;
    bool in_path = false;                  // the machine's own functions come first
    const std::byte* frame_end = nullptr;  // of the function that was seen last
};

_Unwind_Reason_Code note_caller(_Unwind_Context* context, void* opaque) {
    Walk& walk = *static_cast<Walk*>(opaque);
    const std::uintptr_t address = _Unwind_GetIP(context);
    const std::byte* const callee_end = reinterpret_cast<const std::byte*>(_Unwind_GetCFA(context));
    const std::byte* const callee_begin = std::exchange(walk.frame_end, callee_end);
    if (walk.in_path) {
        // On x86-64 the word is the last of the callee's frame; on 64-bit Arm it stands somewhere in it.
        const std::byte* slot = callee_end;
        do slot -= sizeof(address);
        while (slot >= callee_begin && *reinterpret_cast<const std::uintptr_t*>(slot) != address);
        if (slot < callee_begin) return _URC_END_OF_STACK;
        walk.path.returns_to.push_back(address);
        walk.path.slots.push_back(std::uintptr_t(walk.stack_top - slot));
    } else {
        walk.in_path = address == walk.path.from;
    }
    const bool at_kernel = walk.in_path && _Unwind_GetRegionStart(context) == walk.kernel;
    return at_kernel ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/// The source lines of a path, innermost first; nothing if one of them is unknown.
std::optional<std::vector<SourceLine>> lines_of(std::span<const std::uintptr_t> returns_to) {
    std::vector<SourceLine> lines;
    for (const std::uintptr_t address : returns_to) {
        const std::vector<SourceLine>& here = source_lines(address - 1);  // the call stands before it
        if (here.empty()) return std::nullopt;
        lines.insert(lines.end(), here.begin(), here.end());
    }
    return lines;
}

std::vector<std::uintptr_t> addresses_of(const CallPath& path) {
    std::vector<std::uintptr_t> all{path.from};
    all.insert(all.end(), path.returns_to.begin(), path.returns_to.end());
    return all;
}

/// Where two paths part, seen from the kernel inwards, if lines are `same` that say so. Nothing if they do not part.
template <class Same>
std::optional<Parting> first_parting(const std::vector<SourceLine>& ours, const std::vector<SourceLine>& theirs,
                                     const Same& same) {
    const auto [our_last, their_last] = std::mismatch(ours.rbegin(), ours.rend(), theirs.rbegin(), theirs.rend(), same);
    // Where control parted, it did so inside one function. If not, a call is missing in one of the paths: the last one
    // of a function, which jumps there and leaves no trace.
    if (our_last == ours.rend() || their_last == theirs.rend() || our_last->function != their_last->function)
        return std::nullopt;
    return Parting{our_last->site, their_last->site};
}

std::optional<Parting> parting_in_source(const CallPath& one, const CallPath& other) {
    const std::vector<std::uintptr_t> ours = addresses_of(one), theirs = addresses_of(other);
    // What both have in common needs no lines: the machine's own functions, such as mma's, know none.
    const auto [our_begin, their_begin] = std::ranges::mismatch(ours, theirs);
    const auto our_lines = lines_of({our_begin, ours.end()}), their_lines = lines_of({their_begin, theirs.end()});
    if (!our_lines || !their_lines) return std::nullopt;
    // Lines first. Compilers number branches of a line for their copies of it, too, so that a number further out says
    // less than a line or a column further in.
    for (const auto same : {&SourceLine::same_line, &SourceLine::same_column, &SourceLine::same_branch})
        if (const auto parting = first_parting(*our_lines, *their_lines, std::mem_fn(same))) return parting;
    return std::nullopt;
}

}  // namespace

const CallPath& CallPaths::find_path(std::uintptr_t from, std::uintptr_t depth, const std::byte* stack_top,
                                     const void* kernel) {
    const auto remember = [&](const CallPath& path) -> const CallPath& {
        recent_[recent_place(from)] = {path.has_callers() ? 0 : from, &path};
        return path;
    };
    const auto [first, last] = paths_.equal_range({from, depth});
    for (auto known = first; known != last; ++known)
        if (is_path(known->second, from, depth, stack_top)) return remember(known->second);
    CallPath path{.from = from, .depth = depth};
    Walk walk{.path = path, .stack_top = stack_top, .kernel = reinterpret_cast<std::uintptr_t>(kernel)};
    _Unwind_Backtrace(note_caller, &walk);
    return remember(paths_.emplace(std::pair(from, depth), std::move(path))->second);
}

const std::optional<Parting>& CallPaths::parting(const CallPath& one, const CallPath& other) {
    const auto [entry, is_new] = partings_.try_emplace({&one, &other});
    if (is_new) entry->second = parting_in_source(one, other);
    return entry->second;
}

}  // namespace cpu
}  // namespace simt
