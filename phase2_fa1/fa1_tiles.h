#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/simt/device/device.h"
#include "common/simt/views/shared_layout.h"
#include "common/simt/views/tensor_argument.h"

namespace ladder {

/// How much of the problem a block holds at once.
struct Fa1Tiles {
    int B_r;                   ///< query rows of Q_i
    int B_c;                   ///< keys of K_j and V_j
    std::size_t shared_bytes;  ///< what Q_i, K_j, V_j and P_ij then take, padding included
};

/// Eight lanes share a query row, each with every eighth column, and a warp takes eight rows at a time: both tile sizes
/// are multiples of this.
inline constexpr int kFa1Granule = 8;

/// Row numbers fit an int up to kMaxLength, with an overhang of 1024 for the last tile.
inline constexpr int kFa1LargestB_c = 1024;

/// Elements between two rows of P_ij: four more than its columns, so that the rows which a warp reads at once begin in
/// different banks.
constexpr int fa1_score_pitch(int B_c) { return B_c + 4; }

/// What the kernel carves from shared memory, for a kernel compiled for head dimension d.
///
///   K_j [B_c, d], V_j [B_c, d], Q_i [B_r, d]   elements of the input's type, 16 bytes of padding a row
///   P_ij [B_r, B_c]                            float32
constexpr std::size_t fa1_shared_bytes(int B_r, int B_c, int d, int element_bytes) {
    const int row_bytes = d * element_bytes + 16;
    return 2 * simt::shared_bytes<std::byte>(B_c, row_bytes) + simt::shared_bytes<std::byte>(B_r, row_bytes) +
           simt::shared_bytes<float>(B_r, fa1_score_pitch(B_c));
}

/// Line 1 of Algorithm 1: B_c = ceil(M / 4 d) and B_r = min(B_c, d), with M the number of elements that shared memory
/// can hold: the device's limit for one block (with opt-in) divided by the size of an element.
///
/// The paper's quarter for each of Q_i, K_j, V_j and O_i fills M to the last byte, and leaves out the rest. Here O_i is
/// in registers, and P_ij takes its quarter: B_r B_c <= d B_c = M / 4. That is exact for float32 without padding. So
/// B_c starts at the paper's value and goes down in steps of eight until all of it fits: padding against bank
/// conflicts, and P_ij, which is float32 also where Q, K and V have 16 bits. l_i and m_i are in registers and cost
/// nothing.
///
/// d is the head dimension that the kernel is compiled for: 32, 64, 128 or 256, at least `head_dim`. The result never
/// has fewer than eight rows and eight keys; on a device where even these do not fit, `shared_bytes` is above its
/// limit.
inline Fa1Tiles fa1_tiles(const simt::Device& device, simt::ElementType type, std::int64_t head_dim) {
    const int element_bytes = int(simt::element_bytes(type));
    const int d = int(std::bit_ceil(std::max<std::uint64_t>(head_dim, 32)));
    const int limit = device.shared_bytes_per_block_optin;

    const int M = limit / element_bytes;
    const int published_B_c = (M + 4 * d - 1) / (4 * d);
    int B_c = std::clamp(published_B_c / kFa1Granule * kFa1Granule, kFa1Granule, kFa1LargestB_c);
    const auto bytes = [&] { return fa1_shared_bytes(std::min(B_c, d), B_c, d, element_bytes); };
    while (B_c > kFa1Granule && bytes() > std::size_t(limit)) B_c -= kFa1Granule;
    return {.B_r = std::min(B_c, d), .B_c = B_c, .shared_bytes = bytes()};
}

}  // namespace ladder
