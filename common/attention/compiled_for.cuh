#pragma once

#include <utility>

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

// What kernels are compiled for; dispatch.cuh chooses among it. The classroom and the wrong kernels of tests/mutants
// put a shorter list in the place of this file, so that a program is compiled in seconds.

/// Element types.
template <class... T>
struct CompiledElements {};
/// Of every kernel but those of register tiles, which are for float32 alone.
using KernelElements = CompiledElements<float, simt::f16, simt::bf16>;

/// Of kernels that multiply on tensor cores.
using MmaElements = CompiledElements<simt::f16, simt::bf16>;

/// Head dimensions, from the smallest on.
using KernelHeadDims = std::integer_sequence<int, 32, 64, 128, 256>;

/// Those of kernels that multiply on tensor cores.
using MmaHeadDims = std::integer_sequence<int, 32, 64, 96, 128, 192, 256>;

/// Those of kernels that multiply by warpgroups.
using WarpgroupHeadDims = std::integer_sequence<int, 64, 96, 128, 192, 256>;

/// Those of such kernels that are for head dimensions beyond 128 alone.
using LargeWarpgroupHeadDims = std::integer_sequence<int, 192, 256>;

/// Those of kernels of register tiles with one number of query rows: with more, O_i would not fit the registers.
using TiledKernelHeadDims = std::integer_sequence<int, 32, 64, 128>;

/// Query rows and head dimension of a kernel of register tiles (register_tile.cuh).
template <int Rows, int HeadDim>
struct TileShape {
    static constexpr int B_r = Rows;   ///< query rows
    static constexpr int D = HeadDim;  ///< head dimension
};
/// A list of such shapes.
template <class... Shape>
struct CompiledTiles {};

/// Those of the others. Tiles of 64 rows are for problems with few query tiles.
using RegisterTileShapes =
    CompiledTiles<TileShape<128, 32>, TileShape<64, 32>, TileShape<128, 64>, TileShape<64, 64>, TileShape<128, 96>,
                  TileShape<64, 96>, TileShape<128, 128>, TileShape<64, 128>, TileShape<128, 256>, TileShape<64, 256>>;

}  // namespace ladder::SIMT_MACHINE
