#include "common/simt/launch/launch_bounds.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

// The words that g++ makes for functions with room in front of them: where the room begins. The linker puts them side
// by side, and names both ends if there are any.
extern "C" {
[[gnu::weak, gnu::visibility("hidden")]] extern const std::uintptr_t __start___patchable_function_entries[];
[[gnu::weak, gnu::visibility("hidden")]] extern const std::uintptr_t __stop___patchable_function_entries[];
}

namespace simt {
namespace {

#ifdef __aarch64__
using Code = std::uint32_t;
constexpr Code kNop = 0xd503201f;
#else
using Code = std::uint8_t;
constexpr Code kNop = 0x90;
#endif

std::vector<std::uintptr_t> sorted_rooms() {
    const std::uintptr_t* const begin = __start___patchable_function_entries;
    if (!begin) return {};
    std::vector<std::uintptr_t> rooms(begin, __stop___patchable_function_entries);
    std::ranges::sort(rooms);
    return rooms;
}

}  // namespace

unsigned launch_bound_of(const void* kernel) {
    static const std::vector<std::uintptr_t> rooms = sorted_rooms();
    const auto entry = reinterpret_cast<std::uintptr_t>(kernel);
    const auto next = std::ranges::upper_bound(rooms, entry);
    if (next == rooms.begin()) return 0;
    const std::uintptr_t room = *std::prev(next);
    const std::span code(reinterpret_cast<const Code*>(room), (entry - room) / sizeof(Code));
    // Between the room of another kernel and this one lies that kernel.
    if (!std::ranges::all_of(code, [](Code c) { return c == kNop; })) return 0;
    return unsigned(code.size());
}

}  // namespace simt
