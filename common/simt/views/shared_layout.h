#pragma once

#include <cstddef>

namespace simt {

/// Bytes that a tile takes in the shared-memory arena: its elements, rounded up to the 16 bytes that arenas align to.
/// The sum over a kernel's tiles is the dynamicSmemBytes of its launch. (The last tile could do without the rounding.)
template <class T>
constexpr std::size_t shared_bytes(std::size_t rows, std::size_t pitch) {
    return (rows * pitch * sizeof(T) + 15) / 16 * 16;
}

}  // namespace simt
