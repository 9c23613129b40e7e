#pragma once

#include <cstdint>

namespace ladder {

/// What an algorithm must move between a kernel and global memory, by formula. Each phase states its own; its tests
/// hold the formula against what the CPU machine counts, and the tour prints it where nothing counts, on the GPU.
struct GlobalBytes {
    std::uint64_t read = 0;     ///< by the kernels, from global memory
    std::uint64_t written = 0;  ///< by the kernels, to global memory
    /// Equal in both.
    friend bool operator==(const GlobalBytes&, const GlobalBytes&) = default;
};

}  // namespace ladder
