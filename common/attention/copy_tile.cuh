#pragma once

#include <cstdint>
#include <type_traits>

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// The elements of a tile's rows that count: all that its type tells, or D where its shape is known only at launch.
template <class Tile, int D>
inline constexpr int kRowLength = D;
template <class T, int Rows, int Columns, int Pitch>
inline constexpr int kRowLength<simt::SharedTile<T, Rows, Columns, Pitch>, 0> = Columns;

/// tile(r, c) = matrix(first_row + r, c), or zero beyond the matrix.
template <class Tile, class T>
__device__ __forceinline__ void copy_element(const Tile& tile, const simt::GlobalTensor<const T, 2>& matrix,
                                             int first_row, int r, int c) {
    T element = T(0.0f);
    if (first_row + r < int(matrix.extent(0)) && c < int(matrix.extent(1))) element = matrix(first_row + r, c);
    tile(r, c) = element;
}

/// Fills the first `rows` rows of `tile` with those of `matrix` from `first_row` on, the threads of a one-dimensional
/// block together. Neighbouring threads copy neighbouring elements, so a warp's request covers whole sectors.
///
/// What lies beyond the matrix becomes zero: rows past its end, and columns past its width. Zeros are needed, not
/// merely tidy: a padded row of V meets a probability of 0, and 0 * NaN would be NaN.
///
/// `vectorized`: every row of the matrix starts at a multiple of 16 bytes and is a multiple of 16 bytes long.
/// `D`: see kRowLength.
template <int D = 0, class Tile, class T>
__device__ void copy_tile(const Tile& tile, const simt::GlobalTensor<const T, 2>& matrix, int first_row,
                          bool vectorized, int rows = Tile::rows()) {
    constexpr int columns = kRowLength<Tile, D>;
    const int threads = blockDim.x;
    const int length = int(matrix.extent(0)), width = int(matrix.extent(1));
    if (vectorized) {
        using Wide = simt::WideVector<T>;
        constexpr int per_row = columns / simt::kVectorWidth<T>;
        for (int i = threadIdx.x; i < rows * per_row; i += threads) {
            const int r = i / per_row, c = i % per_row * simt::kVectorWidth<T>;
            Wide elements{};
            if (first_row + r < length && c < width) elements = matrix.template vec<Wide>(first_row + r, c);
            tile.template vec<Wide>(r, c) = elements;
        }
    } else {
        for (int i = threadIdx.x; i < rows * columns; i += threads)
            copy_element(tile, matrix, first_row, i / columns, i % columns);
    }
}

/// What copy_tile does with rows that are not vectorized, for kernels that seldom meet them: where Threads and Rows are
/// known at compile time, nvcc would unroll the loop and take registers that the common case needs.
template <int Threads, int Rows, int Columns, class Tile, class T>
__device__ __forceinline__ void copy_tile_by_elements(const Tile& tile, const simt::GlobalTensor<const T, 2>& matrix,
                                                      int first_row) {
#pragma unroll 1
    for (int i = threadIdx.x; i < Rows * Columns; i += Threads)
        copy_element(tile, matrix, first_row, i / Columns, i % Columns);
}

/// What copy_tile does with the first Rows rows and Columns columns of a tile, begun but not awaited (cp.async): the
/// copies belong to the group that the thread commits next, and nobody may touch the tile before they have been waited
/// for. `Threads`: those that copy, so that a thread's rows and columns are known when the kernel is compiled.
///
/// No asynchronous copy is smaller than 4 bytes. Rows that are not `vectorized` go one element at a time, and where
/// elements have 16 bits that is done when the call returns; the caller waits all the same, and loses time only.
template <int Threads, int Rows, int Columns, class Tile, class T>
__device__ __forceinline__ void copy_tile_async(const Tile& tile, const simt::GlobalTensor<const T, 2>& matrix,
                                                int first_row, bool vectorized) {
    // Where the matrix is as wide as the tile, nearly every tile is whole: asked here once and not for each row.
    const bool whole = first_row + Rows <= int(matrix.extent(0)) && Columns <= int(matrix.extent(1));
    const auto copy = [&]<class Piece>(std::type_identity<Piece>) {
        constexpr int width = sizeof(Piece) / sizeof(T), per_row = Columns / width, pieces = Rows * per_row;
        static_assert(pieces % Threads == 0);
        const auto each = [&](const auto& copy_piece) {
#pragma unroll(width > 1 ? pieces / Threads : 1)
            for (int i = 0; i < pieces; i += Threads)
                copy_piece((i + int(threadIdx.x)) / per_row, (i + int(threadIdx.x)) % per_row * width);
        };
        if (whole)
            each([&](int r, int c) {
                simt::copy_async(tile.template vec<Piece>(r, c),
                                 matrix.template vec<Piece>(std::int64_t(first_row) + r, c));
            });
        else
            each([&](int r, int c) {
                simt::copy_async_or_zero(tile.template vec<Piece>(r, c), matrix, std::int64_t(first_row) + r, c);
            });
    };
    if (vectorized)
        copy(std::type_identity<simt::WideVector<T>>());
    else if constexpr (sizeof(T) >= 4)
        copy(std::type_identity<simt::Vector<T, 1>>());
    else
        copy_tile_by_elements<Threads, Rows, Columns>(tile, matrix, first_row);
}

/// A share of a copy by rows (copy_rows_async), of Shares, where all rows and columns exist and rows are vectorized.
/// Nothing is asked here, so a share can stand between other instructions. A thread stays in its columns: of its
/// addresses only one is computed, and the others follow at constant distances.
template <int Threads, int Rows, int Columns, int Shares, class Tile, class T>
__device__ __forceinline__ void copy_share_async(const Tile& tile, const simt::GlobalTensor<const T, 2>& matrix,
                                                 int first_row, int share) {
    using Wide = simt::WideVector<T>;
    constexpr int width = simt::kVectorWidth<T>, pieces = Columns / width;
    constexpr int neighbours = pieces & -pieces;  // that copy side by side: the largest power of 2 that divides a row
    constexpr int rows_at_once = Threads / neighbours, turns = pieces / neighbours;
    static_assert(Rows % rows_at_once == 0);
    constexpr int copies = Rows / rows_at_once * turns;  // of a thread
    const int r = threadIdx.x / neighbours, c = threadIdx.x % neighbours * width;
    const std::int64_t row = std::int64_t(first_row) + r;
#pragma unroll
    for (int i = share * copies / Shares; i < (share + 1) * copies / Shares; ++i) {
        const int below = i / turns * rows_at_once, beside = i % turns * neighbours * width;
        simt::copy_async(tile.template vec<Wide>(r + below, c + beside),
                         matrix.template vec<Wide>(row + below, c + beside));
    }
}

/// What copy_tile_async does, for a tile that is filled in every turn of a loop, in as few instructions as can be.
template <int Threads, int Rows, int Columns, class Tile, class T>
__device__ __forceinline__ void copy_rows_async(const Tile& tile, const simt::GlobalTensor<const T, 2>& matrix,
                                                int first_row, bool vectorized) {
    if (!vectorized) {
        copy_tile_by_elements<Threads, Rows, Columns>(tile, matrix, first_row);
    } else if (first_row + Rows <= int(matrix.extent(0)) && Columns <= int(matrix.extent(1))) {
        copy_share_async<Threads, Rows, Columns, 1>(tile, matrix, first_row, 0);
    } else {
        using Wide = simt::WideVector<T>;
        constexpr int width = simt::kVectorWidth<T>, pieces = Columns / width, neighbours = pieces & -pieces;
        const int r = threadIdx.x / neighbours, c = threadIdx.x % neighbours * width;
#pragma unroll 1
        for (int i = 0; i < Rows; i += Threads / neighbours)
#pragma unroll 1
            for (int n = 0; n < Columns; n += neighbours * width)
                simt::copy_async_or_zero(tile.template vec<Wide>(r + i, c + n), matrix, first_row + r + i, c + n);
    }
}

}  // namespace ladder::SIMT_MACHINE
