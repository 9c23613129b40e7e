#pragma once

// In the place of common/attention/compiled_for.cuh: a mutant is compiled for one element type, CompiledElement, and
// one head dimension (for register tiles kCompiledTiledHeadDim, on tensor cores kCompiledMmaHeadDim, by
// warpgroups kCompiledWarpgroupHeadDim); generate.py writes these above it. So thirty of them do not cost thirty times
// what a phase costs. (Tensor cores multiply no float: where that is the element, their kernels are compiled for f16.)

#include <type_traits>
#include <utility>

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

template <class... T>
struct CompiledElements {};
using KernelElements = CompiledElements<CompiledElement>;
using MmaElements = CompiledElements<std::conditional_t<sizeof(CompiledElement) == 4, simt::f16, CompiledElement>>;
using KernelHeadDims = std::integer_sequence<int, 32>;
using MmaHeadDims = std::integer_sequence<int, kCompiledMmaHeadDim>;
using WarpgroupHeadDims = std::integer_sequence<int, kCompiledWarpgroupHeadDim>;
using LargeWarpgroupHeadDims = std::integer_sequence<int, 256>;
using TiledKernelHeadDims = std::integer_sequence<int, kCompiledTiledHeadDim>;

template <int Rows, int HeadDim>
struct TileShape {
    static constexpr int B_r = Rows;
    static constexpr int D = HeadDim;
};
template <class... Shape>
struct CompiledTiles {};
using RegisterTileShapes = CompiledTiles<TileShape<128, kCompiledTiledHeadDim>>;

}  // namespace ladder::SIMT_MACHINE
