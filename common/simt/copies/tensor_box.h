#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "common/simt/copies/tensor_map_shape.h"
#include "common/simt/language/swizzle.h"

namespace simt {
inline namespace cpu {

/// What one instruction of TMA fills or empties in shared memory: a panel of a tile, or a tile without panels.
struct BoxPlace {
    std::uint32_t offset = 0;  ///< of row 0
    int rows = 0, row_bytes = 0;
    Swizzle swizzle = Swizzle::none;

    /// Where the byte of a row lies: what the accelerator makes of its address.
    std::uint32_t offset_of(int row, int byte) const {
        const std::uint32_t plain = offset + std::uint32_t(row) * std::uint32_t(row_bytes) + std::uint32_t(byte);
        return plain ^ (plain >> 3 & swizzle_bits(swizzle));
    }
    std::size_t bytes() const { return std::size_t(rows) * std::size_t(row_bytes); }
};

using TensorCoordinates = std::array<int, kMostMapDimensions>;

/// The elements of a box's row that the tensor has: `count` from column `first` on, which lie at `address`.
struct BoxRow {
    int row, first, count;
    std::byte* address;
};

/// Calls use(BoxRow) for each row of the box at `at` of which the tensor has elements.
template <class Use>
void for_each_row(const TensorMapShape& map, const TensorCoordinates& at, Use use) {
    const auto last = std::size_t(map.rank - 1);
    const std::int64_t column = at[last], first = std::max<std::int64_t>(0, -column),
                       end = std::min<std::int64_t>(map.columns(), map.extents[last] - column);
    if (first >= end) return;
    for (int row = 0, rows = map.rows(); row < rows; ++row) {
        std::int64_t place = (column + first) * map.element_bytes;
        bool exists = true;
        for (int d = map.rank - 2, left = row; d >= 0; --d) {
            const auto i = std::size_t(d);
            const std::int64_t index = std::int64_t{at[i]} + std::int64_t{left % map.count(d)} * map.steps[i];
            left /= map.count(d);
            exists = exists && index >= 0 && index < map.extents[i];
            place += index * map.byte_strides[i];
        }
        if (exists) use(BoxRow{row, int(first), int(end - first), static_cast<std::byte*>(map.data) + place});
    }
}

/// Calls use(byte of the row, bytes) for the pieces of it that lie together wherever a swizzle puts them.
template <class Use>
void for_each_piece(int first_byte, int bytes, Use use) {
    for (int byte = first_byte, end = first_byte + bytes; byte < end;) {
        const int next = std::min(end, (byte / 16 + 1) * 16);
        use(byte, next - byte);
        byte = next;
    }
}

}  // namespace cpu
}  // namespace simt
