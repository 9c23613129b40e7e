#pragma once

#include <string>

#include "common/simt/device/device_profile.h"
#include "common/simt/machine/schedule.h"
#include "tests/simt/fault_checks.h"

// What the kernels of the tests of products have in common.

namespace simt::testing {

using Wide = WideVector<f16>;
using Tile = PanelTile<f16, 64, 64, Swizzle::b128>;

inline constexpr std::size_t kTileBytes = panel_bytes<f16>(64, 64);

/// One or two warpgroups, and the tiles.
inline constexpr Shape kOneGroup{.block = 128, .shared_bytes = 3 * kTileBytes};
inline constexpr Shape kTwoGroups{.block = 256, .shared_bytes = 3 * kTileBytes};

/// The tiles that most kernels here work on.
struct Tiles {
    Tile Q_i, K_j, V_j;
};
inline Tiles tiles() {
    SharedArena arena;
    const auto Q_i = arena.panels<f16, 64, 64, Swizzle::b128>("Q_i"),
               K_j = arena.panels<f16, 64, 64, Swizzle::b128>("K_j"),
               V_j = arena.panels<f16, 64, 64, Swizzle::b128>("V_j");
    return {Q_i, K_j, V_j};
}

inline int warp() { return int(threadIdx.x) / 32; }
inline int lane() { return int(threadIdx.x) % 32; }
inline int warpgroup() { return int(threadIdx.x) / 128; }

/// All threads of the block write a tile of zeros.
template <class T>
void fill(const T& tile) {
    constexpr int wide = T::columns() / 8;
    for (int i = int(threadIdx.x); i < T::rows() * wide; i += int(blockDim.x))
        tile.template vec<Wide>(i / wide, i % wide * 8) = Wide{};
}

/// The tiles, complete and shown to the tensor cores.
inline Tiles ready_tiles() {
    const Tiles t = tiles();
    fill(t.Q_i);
    fill(t.K_j);
    fill(t.V_j);
    show_to_async();
    __syncthreads();
    return t;
}

/// S = Q_i K_j^T, one step of it.
inline void multiply_once(Accumulator<64>& S, const Tiles& t, bool accumulate = false,
                          SourceSite site = SourceSite::here()) {
    multiply(S, k_major(t.Q_i, 0, 0), k_major(t.K_j, 0, 0), accumulate, site);
}

/// An operand of zeros.
inline OperandA<f16> zeros(SourceSite site = SourceSite::here()) {
    OperandA<f16> P(site);
    for (int r = 0; r < 4; ++r) P.set(r, 0, site);
    return P;
}

/// While a test runs, the machine imitates a Hopper.
class OnHopper : public ::testing::Test {
    const ScopedCpuDevice device_{device_from(device_profile("h200"))};
};

/// The machine has no complaint, whatever order it runs warps in.
template <class Kernel>
void expect_clean_in_any_order(const Shape& shape, Kernel kernel) {
    for (unsigned seed = 0; seed < 8; ++seed) {
        const ScopedOrder order(seed);
        SCOPED_TRACE("order " + std::to_string(seed));
        expect_clean(shape, kernel);
    }
}

/// Some thread: all of a warp do the same, and which comes first is the machine's affair.
inline constexpr int kSome = -2;

/// expect_fault() with kSome where it does not matter who it was, the same for both parties.
template <class Kernel>
void expect_fault_by_some(const Shape& shape, Kernel kernel, Expected expected, const char* test = __builtin_FILE()) {
    const auto found = fault_of(shape, kernel);
    ASSERT_TRUE(found) << "not found: " << name_of(expected.fault);
    for (Party* const party : {&expected.first, &expected.second})
        if (party->thread == kSome) party->thread = found->report().first.thread;
    expect_fault(shape, kernel, expected, test);
}

}  // namespace simt::testing
