#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace simt {
inline namespace cpu {

/// A small number for a tensor's name, so that an access can be counted without looking the name up.
int tensor_id(const char* name);
const char* tensor_name(int id);
inline constexpr int kMaxTensorNames = 128;

/// By a tensor's number: how many bytes beyond the address that a view names its element lies. 0, unless a program
/// wants tensors out of reach of bare pointers: then it leaves closed what views name, and only an access that says its
/// tensor finds the memory.
extern std::array<std::ptrdiff_t, kMaxTensorNames> beyond_views;

/// Whether this program does.
bool only_views_reach_tensors();

/// Where the element lies that a view of this tensor names.
template <class T>
[[gnu::always_inline]] inline T* memory_behind(int tensor, T* named) {
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(named) +
                                std::uintptr_t(beyond_views[std::size_t(tensor)]));
}

}  // namespace cpu
}  // namespace simt
