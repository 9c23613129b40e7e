#pragma once

// What tma.cuh and its test agree on.

#include <array>

#include "common/simt/language/swizzle.h"
#include "common/simt/views/tensor_argument.h"

namespace ladder {

inline constexpr int kTmaRows = 24;      ///< of a tile
inline constexpr int kTmaStages = 4;     ///< of the ring, at most
inline constexpr int kTmaThreads = 128;  ///< the first loads, the last three warps take what has come

/// Of a tile: two panels, or without a swizzle one of 64 bytes.
constexpr int tma_columns(simt::Swizzle swizzle, int element_bytes) {
    return (swizzle == simt::Swizzle::none ? 64 : 2 * int(simt::swizzle_span(swizzle))) / element_bytes;
}

/// Where tile j lies in the tensor: from first + j * step on.
struct TmaPath {
    int first[4], step[4];
};

/// Moves tiles between a tensor, in which TMA finds them, and a plain [tiles, rows, columns].
struct TmaTrial {
    enum class What { load, store, add };
    What what = What::load;
    simt::TensorArgument tensor;  ///< of rank 2, 3 or 4
    simt::TensorArgument tiles;   ///< [tiles, kTmaRows, tma_columns()]
    TmaPath path{};
    std::array<int, 4> box{};  ///< of one copy, without the last dimension's: its product is kTmaRows
    std::array<int, 4> steps{1, 1, 1, 1};
    simt::Swizzle swizzle = simt::Swizzle::b128;
    int stages = kTmaStages;  ///< of loads
    int blocks = 1;           ///< of stores and additions: each block does all of them
    void* stream = nullptr;
};

/// Copies without a tensor map, by one block: x to y through a tile, adding y's tile to sum.
struct BulkTrial {
    simt::TensorArgument x, y, sum;  ///< [kBulkElements] floats
    void* stream = nullptr;
};
inline constexpr int kBulkElements = 512;

}  // namespace ladder
