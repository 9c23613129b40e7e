#pragma once

#include "common/simt/device/device_profile.h"
#include "tests/simt/fault_checks.h"

// What the kernels of the tests of TMA have in common.

namespace simt::testing {

/// While a test runs, the machine imitates a Hopper.
class TmaModel : public ::testing::Test {
    const ScopedCpuDevice imitated_{device_from(device_profile("h200"))};
};

inline constexpr int R = 16, C = 32, kBytes = R * C * int(sizeof(float));  // a tile of one panel
inline constexpr int kTensorRows = 40;
inline constexpr Shape kTwoWarps{.block = 64, .shared_bytes = 3 * kBytes + 256};

/// [40, 32], x(r, c) = 100 r + c
struct Numbers : Buffer<float> {
    explicit Numbers(const char* name) : Buffer(name, {kTensorRows, C}) {
        for (int i = 0; i < kTensorRows * C; ++i) base[i] = float(i / C * 100 + i % C);
    }
    template <class T = const float>
    TensorMap<T, 2> map(int rows = R, Swizzle swizzle = Swizzle::b128, int columns = C) {
        return tensor_map<T, 2>(argument<2>(), {rows, columns}, swizzle);
    }
};

inline bool is_thread(unsigned n) { return threadIdx.x == n; }

/// What the kernels have in common: two tiles, and a barrier for each, made by thread 0.
struct Tiles {
    SharedArena arena{};
    PanelTile<float, 2 * R, C, Swizzle::b128> all = arena.panels<float, 2 * R, C, Swizzle::b128>("K_j");
    SharedBarriers<2> full = arena.barriers<2>("full");

    auto tile(int i) const { return all.rows_from<R>(i * R); }
    void make_barriers(int arrivals = 1) const {
        if (is_thread(0)) {
            for (int i = 0; i < 2; ++i) full[i].init(arrivals);
            publish_barriers();
        }
        __syncthreads();
    }
};

}  // namespace simt::testing
