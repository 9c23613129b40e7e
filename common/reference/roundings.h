#pragma once

namespace ladder::reference {

// What the bounds of error_bound.h and gradient_bound.h are made of: docs/numerics.md.

inline constexpr double kUnit = 0x1p-24;  ///< u: what rounding to float32 changes a number by, relative to it
inline constexpr double kSmallestNormal = 0x1p-126;  ///< what is smaller may be flushed to zero

/// What a weight P = exp(x) meets: its exponential, by an instruction whose error is 4 u, and products with it; in the
/// forward pass the division.
inline constexpr double kPerWeight = 8;

/// Relative to the exponent x: the difference, the factor log2(e) and the product with that.
inline constexpr double kPerExponent = 3;

}  // namespace ladder::reference
