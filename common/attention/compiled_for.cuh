#pragma once

#include <utility>

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

// What kernels are compiled for; dispatch.cuh chooses among it. The classroom and the wrong kernels of tests/mutants
// put a shorter list in the place of this file, so that a program is compiled in seconds.

/// Element types.
template <class... T>
struct CompiledElements {};
using KernelElements = CompiledElements<float, simt::f16, simt::bf16>;

/// Head dimensions, from the smallest on.
using KernelHeadDims = std::integer_sequence<int, 32, 64, 128, 256>;

/// Those of kernels of register tiles (register_tile.cuh): with more, O_i would not fit the registers.
using TiledKernelHeadDims = std::integer_sequence<int, 32, 64, 128>;

}  // namespace ladder::SIMT_MACHINE
