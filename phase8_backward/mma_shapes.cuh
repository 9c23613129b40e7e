#pragma once

#include <cstdint>

#include "common/attention/dispatch.cuh"
#include "common/simt/simt.h"
#include "phase8_backward/backward_tensors.cuh"

namespace ladder::SIMT_MACHINE {

/// Columns of dQ_i that a warp computes.
template <int From, int Until, int Width>
struct DqColumns {
    static constexpr int from = From, until = Until;  ///< the first, and one beyond the last
    static constexpr int width = Width;               ///< so many at a time
    static_assert(Until == From || (Until - From) % Width == 0);
};

/// Tiles of mma_dkdv.cuh for head dimension D: a block keeps B_c keys, and B_r queries come past at a time. Warps work
/// in pairs, each pair with 16 M keys. dQ_i is dealt out to the pairs, by rows and then by columns; of a pair the warp
/// of dS has three products to compute and the other two, so the last DqOfP of their columns are the other's.
template <int HeadDim, int Pairs, int M, int Queries, int DqOfP>
struct MmaDkdvShape {
    static constexpr int D = HeadDim;               ///< the head dimension it is compiled for
    static constexpr int pairs = Pairs, m = M;      ///< pairs of warps, each with 16 m keys
    static constexpr int B_c = 16 * M * Pairs;      ///< keys
    static constexpr int B_r = Queries;             ///< queries
    static constexpr int threads = 2 * 32 * Pairs;  ///< of a block
    static constexpr int stages = 2;                ///< of Q_i, dO_i, LSE_i and D_i
    static constexpr int fragments = M * B_r / 16;  ///< operands A of a warp that P_ij^T makes, and dS_ij^T

    static constexpr int dq_m = B_r < 32 ? 1 : 2;               ///< fragments of 16 rows of dQ_i that a pair has
    static constexpr int dq_groups = B_r / (16 * dq_m);         ///< of pairs with the same rows
    static constexpr int dq_columns = D * dq_groups / Pairs;    ///< columns that a pair has
    static constexpr int dq_of_P = DqOfP;                       ///< of these, the last, computed by the warp of P
    static constexpr int dq_of_dS = dq_columns - DqOfP;         ///< and the others, by the warp of dS
    static constexpr int dS_stages = DqOfP > 0 ? 2 : 1;         ///< one is read by all warps while the next is made
    static constexpr bool narrow = D > 128 || dq_columns > 64;  ///< whether registers suffice for 32 columns only
    using ColumnsOfDS = DqColumns<0, dq_of_dS, narrow ? 32 : dq_of_dS>;       ///< of the warp of dS
    using ColumnsOfP = DqColumns<dq_of_dS, dq_columns, narrow ? 32 : DqOfP>;  ///< of the warp of P
    static_assert(Pairs % dq_groups == 0);

    static constexpr std::size_t shared_bytes =  ///< of a block
        simt::shared_bytes<simt::f16>(2 * B_c + 2 * stages * B_r, D) +
        (1 + dS_stages) * simt::shared_bytes<simt::f16>(B_c, B_r) + simt::shared_bytes<float>(2 * stages, B_r);
};

/// The shapes for a head dimension, the fastest first: which need the most shared memory. The last runs wherever there
/// are asynchronous copies. Up to D = 64 a part of dQ_i costs the warp of P more than the other gains.
template <int D>
struct MmaDkdvShapes;
template <>
struct MmaDkdvShapes<32> : CompiledTiles<MmaDkdvShape<32, 4, 2, 64, 0>> {};
template <>
struct MmaDkdvShapes<64> : CompiledTiles<MmaDkdvShape<64, 4, 2, 128, 0>, MmaDkdvShape<64, 4, 2, 64, 0>> {};
template <>
struct MmaDkdvShapes<96> : CompiledTiles<MmaDkdvShape<96, 4, 2, 64, 16>, MmaDkdvShape<96, 2, 2, 64, 0>> {};
template <>
struct MmaDkdvShapes<128>
    : CompiledTiles<MmaDkdvShape<128, 4, 2, 64, 16>, MmaDkdvShape<128, 4, 2, 64, 0>, MmaDkdvShape<128, 2, 2, 32, 0>> {};
template <>
struct MmaDkdvShapes<192>
    : CompiledTiles<MmaDkdvShape<192, 4, 1, 64, 32>, MmaDkdvShape<192, 4, 1, 64, 0>, MmaDkdvShape<192, 2, 1, 32, 0>> {};
template <>
struct MmaDkdvShapes<256>
    : CompiledTiles<MmaDkdvShape<256, 4, 1, 64, 32>, MmaDkdvShape<256, 4, 1, 32, 0>, MmaDkdvShape<256, 1, 1, 32, 0>> {};

/// Tiles of mma_dq.cuh: a block keeps B_r = 16 M Warps queries, and B_c keys come past at a time.
template <int HeadDim, int Warps, int M, int Keys, int Resident>
struct MmaDqShape {
    static constexpr int D = HeadDim;            ///< the head dimension it is compiled for
    static constexpr int m = M;                  ///< a warp has 16 m queries
    static constexpr int B_r = 16 * M * Warps;   ///< queries
    static constexpr int B_c = Keys;             ///< keys
    static constexpr int threads = 32 * Warps;   ///< of a block
    static constexpr int resident = Resident;    ///< blocks on a multiprocessor that registers suffice for
    static constexpr int stages = 2;             ///< of K_j and V_j
    static constexpr std::size_t shared_bytes =  ///< of a block
        simt::shared_bytes<simt::f16>(2 * B_r + 2 * stages * B_c, D) + simt::shared_bytes<float>(2, B_r);
};

/// As MmaDkdvShapes.
template <int D>
struct MmaDqShapes;
template <>
struct MmaDqShapes<32> : CompiledTiles<MmaDqShape<32, 4, 2, 64, 2>> {};
template <>
struct MmaDqShapes<64> : CompiledTiles<MmaDqShape<64, 4, 2, 48, 2>> {};
template <>
struct MmaDqShapes<96> : CompiledTiles<MmaDqShape<96, 4, 2, 32, 2>> {};
template <>
struct MmaDqShapes<128> : CompiledTiles<MmaDqShape<128, 4, 2, 32, 2>> {};
template <>
struct MmaDqShapes<192> : CompiledTiles<MmaDqShape<192, 8, 1, 32, 1>, MmaDqShape<192, 4, 1, 32, 1>> {};
template <>
struct MmaDqShapes<256> : CompiledTiles<MmaDqShape<256, 8, 1, 32, 1>, MmaDqShape<256, 4, 1, 16, 1>> {};

/// Calls `use(Shape())` with the first shape that fits the shared memory of the problem's device, or else the last.
template <class... Shape, class Use>
void with_shape_that_fits(const CompiledTiles<Shape...>&, const AttentionArguments& a, Use&& use) {
    int left = int(sizeof...(Shape));
    const bool done =
        ((--left == 0 || std::int64_t(Shape::shared_bytes) <= a.shared_bytes_per_block ? (use(Shape()), true)
                                                                                       : false) ||
         ...);
    static_cast<void>(done);
}

/// The same with the shape of mma_dkdv.cuh for the problem's head dimension.
template <class Use>
void with_mma_dkdv_shape(const AttentionArguments& a, Use&& use) {
    with_mma_head_dim(a.head_dim(),
                      [&]<int D>(std::integral_constant<int, D>) { with_shape_that_fits(MmaDkdvShapes<D>(), a, use); });
}

/// The same with that of mma_dq.cuh.
template <class Use>
void with_mma_dq_shape(const AttentionArguments& a, Use&& use) {
    with_mma_head_dim(a.head_dim(),
                      [&]<int D>(std::integral_constant<int, D>) { with_shape_that_fits(MmaDqShapes<D>(), a, use); });
}

}  // namespace ladder::SIMT_MACHINE
