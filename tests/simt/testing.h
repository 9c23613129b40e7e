#pragma once

// What the tests of the CPU machine share: a kernel is a lambda, so that it stands beside what is expected of it.

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/simt/simt.h"

namespace simt::testing {

struct Shape {
    dim3 grid = 1;
    dim3 block = 32;
    std::size_t shared_bytes = 0;
    dim3 cluster = {0, 0, 0};  // no clusters
};

template <class Kernel>
void call_kernel(Kernel kernel) {
    kernel();
}

inline cudaLaunchConfig_t config_of(const Shape& shape) {
    return {.gridDim = shape.grid, .blockDim = shape.block, .dynamicSmemBytes = shape.shared_bytes};
}

/// Launches `kernel` as phases do. Every lambda is a kernel of its own, with attributes of its own.
template <class Kernel>
void run(const Shape& shape, Kernel kernel, const char* name = "test_kernel") {
    cudaLaunchConfig_t config = config_of(shape);
    cudaLaunchAttribute attribute = cluster_dimension(shape.cluster.x, shape.cluster.y, shape.cluster.z);
    if (shape.cluster.x > 0) {
        config.attrs = &attribute;
        config.numAttrs = 1;
    }
    simt::launch(name, config, call_kernel<Kernel>, kernel);
}

/// Launches with the bare CUDA call: no attribute is raised, nothing is thrown for a refused launch.
template <class Kernel>
cudaError_t try_launch(const Shape& shape, Kernel kernel) {
    const cudaLaunchConfig_t config = config_of(shape);
    return cudaLaunchKernelEx(&config, call_kernel<Kernel>, kernel);
}

/// What the machine says about `kernel`; nothing if it has no complaint.
template <class Kernel>
std::optional<MachineError> fault_of(const Shape& shape, Kernel kernel, const char* name = "test_kernel") {
    try {
        run(shape, kernel, name);
    } catch (const MachineError& error) {
        return error;
    }
    return std::nullopt;
}

/// Runs blocks on `count` OS threads while alive.
class Workers {
  public:
    explicit Workers(int count) : before_(cpu_workers()) { set_cpu_workers(count); }
    ~Workers() { set_cpu_workers(before_); }
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

  private:
    int before_;
};

/// The line of tests/simt/`file` that ends in the comment "// @`mark`".
inline unsigned line_of(const std::string& file, const std::string& mark) {
    std::ifstream source(LADDER_SOURCE_DIR "/tests/simt/" + file);
    const std::string comment = "// @" + mark;
    unsigned number = 0, found = 0;
    for (std::string line; std::getline(source, line);) {
        ++number;
        if (!line.ends_with(comment)) continue;
        EXPECT_EQ(found, 0u) << "\"" << comment << "\" stands on two lines of " << file;
        found = number;
    }
    EXPECT_NE(found, 0u) << "no line of " << file << " ends in \"" << comment << "\"";
    return found;
}

/// A buffer in global memory, under a name, as kernels and counters see it.
template <class T>
struct Buffer {
    Buffer(const char* name, std::vector<std::int64_t> sizes) : extents(std::move(sizes)), name_(name) {
        std::int64_t count = 1;
        for (const std::int64_t extent : extents) count *= extent;
        // Room to choose a base address with any alignment, and a known one to begin with.
        storage.resize(std::size_t(count) + 2 * kSlack);
        base = storage.data() + kSlack;
        while (reinterpret_cast<std::uintptr_t>(base) % 128) ++base;
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    template <int Rank>
    TensorArgument argument(std::ptrdiff_t shift = 0) {
        TensorArgument argument{.name = name_, .data = base + shift, .rank = Rank};
        std::int64_t stride = 1;
        for (int i = Rank - 1; i >= 0; --i) {
            argument.extents[i] = extents[i];
            argument.strides[i] = stride;
            stride *= extents[i];
        }
        return argument;
    }
    template <int Rank>
    GlobalTensor<T, Rank> view(std::ptrdiff_t shift = 0) {
        return global_tensor<T, Rank>(argument<Rank>(shift));
    }

    static constexpr std::size_t kSlack = 128;
    std::vector<std::int64_t> extents;
    std::vector<T> storage;
    T* base;

  private:
    const char* name_;
};

}  // namespace simt::testing
