#pragma once

#include "common/simt/machine/schedule.h"
#include "tests/simt/global_memory.h"

// What the tests of atomics and of blocks that hand over have in common.

namespace simt::testing {

/// What kernels work on: numbers, and flags that say something of them.
struct DataAndFlags {
    mutable Buffer<float> data_buffer{"data", {64}};
    mutable Buffer<int> flag_buffer{"flag", {4}};
    GlobalTensor<float, 1> data = data_buffer.view<1>();
    GlobalTensor<int, 1> flag = flag_buffer.view<1>();
};

/// Runs a kernel several times, with flags at 0, by one worker and by several: nothing may be said.
template <class Kernel>
void expect_right(const DataAndFlags& m, const Shape& shape, Kernel kernel) {
    for (const int count : {1, 4}) {
        const Workers workers(count);
        for (int run = 0; run < 5; ++run) {
            for (int i = 0; i < 4; ++i) m.flag_buffer.base[i] = 0;
            expect_clean(shape, kernel);
        }
    }
}

}  // namespace simt::testing
