#pragma once

// Where the elements of a panel tile lie, for all machines.

#include <cstddef>

#include "common/simt/language/swizzle.h"
#if !defined(__CUDACC__)
#include "common/simt/language/cuda_names.h"
#endif

namespace simt {

/// Panel tiles begin at a multiple of so many bytes: the patterns of swizzles are tied to addresses, and repeat so.
inline constexpr std::size_t kPanelAlignment = 1024;

/// Bytes that a panel tile takes in the shared-memory arena. A kernel's panel tiles come first, and each takes a
/// multiple of 1024 bytes where it has as many rows as tensor cores like, so that nothing is lost between them.
template <class T>
constexpr std::size_t panel_bytes(std::size_t rows, std::size_t columns) {
    return (rows * columns * sizeof(T) + kPanelAlignment - 1) / kPanelAlignment * kPanelAlignment;
}

/// A matrix of `Rows` x `Columns` elements of `Bytes` bytes as panels, one behind the other. A panel has all rows, and
/// of each so many columns as fill the span of the swizzle: 64 of 16 bits in 128 bytes. Without a swizzle there is one
/// panel with all columns.
///
/// Row r of a panel begins r spans behind its first byte. In a row, piece p of 16 bytes lies in place p ^ r % 8 for
/// b128, p ^ r / 2 % 4 for b64, p ^ r / 4 % 2 for b32. This is what TMA and wgmma do to the bits of an address, if
/// panels begin where the pattern does.
///
/// `PanelRows`: rows that lie in a panel, where these are only some of them.
template <int Bytes, int Rows, int Columns, Swizzle S, int PanelRows = Rows>
struct PanelLayout {
    static constexpr Swizzle swizzle = S;                        ///< how its pieces are exchanged
    static constexpr unsigned exchanged_bits = swizzle_bits(S);  ///< of an offset: those that the row changes
    static constexpr int panel_columns = S == Swizzle::none ? Columns : int(swizzle_span(S)) / Bytes;  ///< of one panel
    static constexpr int panels = Columns / panel_columns;                     ///< side by side in the matrix
    static constexpr int row_bytes = panel_columns * Bytes;                    ///< from one row of a panel to the next
    static constexpr int panel_stride = PanelRows * row_bytes;                 ///< bytes from one panel to the next
    static constexpr std::size_t bytes = std::size_t{Rows} * Columns * Bytes;  ///< of these rows alone

    static_assert(Rows >= 1 && Columns >= 1 && PanelRows >= Rows);
    static_assert(Columns % panel_columns == 0,
                  "the columns fill whole panels: their bytes are a multiple of the span");
    static_assert(S == Swizzle::none || PanelRows % 8 == 0, "panels have a multiple of 8 rows, as the patterns do");
    static_assert(row_bytes % 16 == 0, "rows of a panel are made of pieces of 16 bytes");

    /// Bytes from the first element to where the element would lie without a swizzle.
    __host__ __device__ static constexpr unsigned plain_offset(unsigned row, unsigned column) {
        return column / unsigned(panel_columns) * unsigned(panel_stride) + row * unsigned(row_bytes) +
               column % unsigned(panel_columns) * unsigned(Bytes);
    }

    /// The same to where it does.
    __host__ __device__ static constexpr unsigned offset(unsigned row, unsigned column) {
        const unsigned in_panel = row * unsigned(row_bytes) + column % unsigned(panel_columns) * unsigned(Bytes);
        return column / unsigned(panel_columns) * unsigned(panel_stride) +
               (in_panel ^ (in_panel >> 3 & exchanged_bits));
    }
};

}  // namespace simt
