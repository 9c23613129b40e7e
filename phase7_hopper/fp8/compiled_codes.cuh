#pragma once

#include <utility>

#include "common/attention/compiled_for.cuh"

namespace ladder::SIMT_MACHINE {

// What the kernels in 8 bits are compiled for.

/// The powers of 2 among the sizes D…: of such columns are whole panels of codes, and Hadamard matrices.
template <int... Kept>
constexpr auto powers_of_two(std::integer_sequence<int, Kept...> kept, std::integer_sequence<int>) {
    return kept;
}
template <int... Kept, int D, int... More>
constexpr auto powers_of_two(std::integer_sequence<int, Kept...> kept, std::integer_sequence<int, D, More...>) {
    constexpr std::integer_sequence<int, More...> more;
    if constexpr ((D & (D - 1)) == 0)
        return powers_of_two(std::integer_sequence<int, Kept..., D>(), more);
    else
        return powers_of_two(kept, more);
}

/// Columns of the codes: 64, 128 and 256.
using Fp8HeadDims = decltype(powers_of_two(std::integer_sequence<int>(), WarpgroupHeadDims()));

/// Codes of V and of the weights. Q and K are always in e4m3.
using Fp8Elements = CompiledElements<simt::e4m3, simt::e5m2>;

}  // namespace ladder::SIMT_MACHINE
