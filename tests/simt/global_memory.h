#pragma once

#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "common/simt/memory/global_memory.h"
#include "tests/simt/fault_checks.h"

// What the tests of global memory have in common.

namespace simt::testing {

inline bool is_thread(unsigned block, unsigned thread) { return blockIdx.x == block && threadIdx.x == thread; }

/// A buffer that holds garbage until a kernel writes it.
template <class T>
struct FreshBuffer : Buffer<T> {
    FreshBuffer(const char* name, std::vector<std::int64_t> sizes)
        : Buffer<T>(name, std::move(sizes)), fresh(expect_kernels_to_write(this->base, bytes(), sizeof(T))) {}
    std::size_t bytes() const {
        return sizeof(T) * std::size_t(std::accumulate(this->extents.begin(), this->extents.end(), std::int64_t{1},
                                                       std::multiplies<>()));
    }
    std::shared_ptr<void> fresh;
};

}  // namespace simt::testing
