#pragma once

#include <cstddef>
#include <cstdint>

#include "common/simt/language/element_type.h"

// What a warpgroup's product computes, on arrays of float.

namespace simt {
inline namespace cpu {

/// Every product of a warpgroup has so many rows.
inline constexpr int kProductRows = 64;
inline constexpr int kMostProductColumns = 256;
/// And so many bytes of k, whatever the elements: 16 of 16 bits, 32 of 8.
inline constexpr int kProductBytes = 32;
inline constexpr int kMostProductDepth = 32;

/// The values of `count` elements of a type of 8 or 16 bits, as they lie in memory.
void convert_elements(ElementType type, const void* bits, std::size_t count, float* values);

/// D [64, n] += A [64, depth] B [depth, n]; `n` is a multiple of 8. Products are exact in float, unless those of bf16
/// leave its range. They are added to D one by one, k upwards, each sum rounded to the nearest float.
void add_product(float* d, const float* a, const float* b, int n, int depth);

}  // namespace cpu
}  // namespace simt
