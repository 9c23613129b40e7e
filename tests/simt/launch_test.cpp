// Launches: what a device refuses, in which words, and that what it accepts runs every block once.

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "tests/simt/testing.h"

namespace simt::testing {

template <int Bytes>
__global__ void kernel_with_array(int* ran) {
    __shared__ char first[Bytes - 64];
    __shared__ int rest[16];
    first[threadIdx.x] = 1;
    rest[threadIdx.x % 16] = 1;
    if (threadIdx.x == 0) *ran += first[0] * rest[0];
}

template <int Lanes, int Rows = 3>
struct BoundShape {
    static constexpr int threads = Rows * Lanes, resident = 2;
};
// One body, so that a compiler may be tempted to make one function of all.
__global__ void __launch_bounds__(128) bound_kernel(int* ran) { *ran = 1; }
__global__ void free_kernel(int* ran) { *ran = 1; }
__global__ void __launch_bounds__(129, 2) odd_bound_kernel(int* ran) { *ran = 1; }
template <class T, int Warps>
__global__ void __launch_bounds__(int(sizeof(T)) * 8 * Warps) warps_kernel(int* ran) {
    *ran = 1;
}
template <int Lanes>
__global__ void __launch_bounds__(BoundShape<Lanes, 3>::threads, BoundShape<Lanes, 3>::resident)
    shape_kernel(int* ran) {
    *ran = 1;
}
template <int Lanes>
__global__ void free_template_kernel(int* ran) {
    *ran = 1;
}
__device__ inline void __launch_bounds__(1) empty_kernel(int*) {}

namespace {

__global__ void __launch_bounds__(64) hidden_kernel(int* ran) { *ran = 1; }
__global__ void free_hidden_kernel(int* ran) { *ran = 1; }

/// A kernel of its own for every N, so that its attributes have not been touched by another test.
template <int N>
void fresh_kernel(int* ran) {
    if (threadIdx.x == 0) ++*ran;
}

cudaError_t launch_with(void (*kernel)(int*), std::size_t shared_bytes, int& ran) {
    ran = 0;
    const cudaLaunchConfig_t config{.gridDim = 1, .blockDim = 32, .dynamicSmemBytes = shared_bytes};
    return cudaLaunchKernelEx(&config, kernel, &ran);
}

constexpr auto kSharedBytes = cudaFuncAttributeMaxDynamicSharedMemorySize;

class EveryProfile : public ::testing::TestWithParam<std::string_view> {
  protected:
    const Device device_ = device_from(device_profile(GetParam()));
    const ScopedCpuDevice imitated_{device_};
    int ran_ = 0;
};

TEST_P(EveryProfile, WithoutTheAttributeABlockGets48KiB) {
    EXPECT_EQ(launch_with(fresh_kernel<0>, 48 * 1024 - 1, ran_), cudaSuccess);
    EXPECT_EQ(ran_, 1);
    EXPECT_EQ(launch_with(fresh_kernel<0>, 48 * 1024, ran_), cudaSuccess);
    EXPECT_EQ(ran_, 1);
    EXPECT_EQ(launch_with(fresh_kernel<0>, 48 * 1024 + 1, ran_), cudaErrorInvalidValue);
    EXPECT_EQ(ran_, 0) << "a refused launch runs nothing";
    EXPECT_EQ(launch_with(fresh_kernel<0>, 0, ran_), cudaSuccess) << "after an error the next launch works";
}

TEST_P(EveryProfile, WithTheAttributeUpToTheOptInLimit) {
    const int limit = device_.shared_bytes_per_block_optin;
    EXPECT_EQ(cudaFuncSetAttribute(fresh_kernel<1>, kSharedBytes, limit + 1), cudaErrorInvalidValue);
    EXPECT_EQ(cudaFuncSetAttribute(fresh_kernel<1>, kSharedBytes, -1), cudaErrorInvalidValue);
    EXPECT_EQ(cudaFuncSetAttribute(fresh_kernel<1>, kSharedBytes, limit), cudaSuccess);
    EXPECT_EQ(launch_with(fresh_kernel<1>, std::size_t(limit) - 1, ran_), cudaSuccess);
    EXPECT_EQ(ran_, 1);
    EXPECT_EQ(launch_with(fresh_kernel<1>, std::size_t(limit), ran_), cudaSuccess);
    EXPECT_EQ(ran_, 1);
    EXPECT_EQ(launch_with(fresh_kernel<1>, std::size_t(limit) + 1, ran_), cudaErrorInvalidValue);
    EXPECT_EQ(ran_, 0);
    EXPECT_EQ(launch_with(fresh_kernel<1>, std::size_t{1} << 40, ran_), cudaErrorInvalidValue);
}

TEST_P(EveryProfile, TheAttributeIsTheLimitWhereItIsLower) {
    const int optin = device_.shared_bytes_per_block_optin;
    if (optin == 48 * 1024) return;  // nothing lies between
    const int between = 48 * 1024 + (optin - 48 * 1024) / 2;
    ASSERT_EQ(cudaFuncSetAttribute(fresh_kernel<2>, kSharedBytes, between), cudaSuccess);
    EXPECT_EQ(launch_with(fresh_kernel<2>, std::size_t(between), ran_), cudaSuccess);
    EXPECT_EQ(launch_with(fresh_kernel<2>, std::size_t(between) + 1, ran_), cudaErrorInvalidValue);
    EXPECT_EQ(launch_with(fresh_kernel<3>, std::size_t(between), ran_), cudaErrorInvalidValue) << "another kernel";
}

TEST_P(EveryProfile, LaunchRaisesTheAttributeItself) {
    const std::size_t limit = std::size_t(device_.shared_bytes_per_block_optin);
    for (const std::size_t bytes : {limit - 1, limit}) {
        ran_ = 0;
        run({.shared_bytes = bytes}, [ran = &ran_] {
            if (threadIdx.x == 0) ++*ran;
        });
        EXPECT_EQ(ran_, 1);
    }
    try {
        run(
            {.shared_bytes = limit + 1}, [] { FAIL() << "ran"; }, "greedy_kernel");
        FAIL() << "accepted " << limit + 1 << " bytes";
    } catch (const LaunchError& error) {
        EXPECT_EQ(error.kernel, "greedy_kernel");
        EXPECT_EQ(error.code, int(cudaErrorInvalidValue));
        EXPECT_EQ(error.code, 1) << "CUDA's own number";
        EXPECT_EQ(error.code_name, "cudaErrorInvalidValue");
        EXPECT_EQ(error.call, "cudaFuncSetAttribute") << "where CUDA, too, refuses first";
        EXPECT_EQ(error.required_shared_bytes, limit + 1);
        EXPECT_EQ(error.shared_bytes_limit, limit);
        EXPECT_EQ(error.device, device_.name);
        const std::string message = error.what();
        for (const std::string& words : {std::string("greedy_kernel"), error.code_name, device_.name, error.call,
                                         std::to_string(limit), std::to_string(limit + 1)})
            EXPECT_NE(message.find(words), std::string::npos) << message;
    }
    ran_ = 0;
    run({.shared_bytes = limit}, [ran = &ran_] {
        if (threadIdx.x == 0) ++*ran;
    });
    EXPECT_EQ(ran_, 1) << "after an error the next launch works";
}

std::vector<std::string_view> profile_names() {
    std::vector<std::string_view> names;
    for (const DeviceProfile& profile : device_profiles()) names.push_back(profile.name);
    return names;
}
INSTANTIATE_TEST_SUITE_P(Profiles, EveryProfile, ::testing::ValuesIn(profile_names()),
                         [](const auto& info) { return std::string(info.param); });

TEST(Launch, GridsAndBlocksOutsideTheLimits) {
    const auto kernel = [] {};
    struct Case {
        dim3 grid, block;
        cudaError_t expected;
    };
    constexpr auto refused = cudaErrorInvalidConfiguration;
    for (const auto& [grid, block, expected] : {
             Case{1, 1, cudaSuccess},
             Case{1, 1024, cudaSuccess},
             Case{1, 1025, refused},
             Case{1, dim3(32, 32), cudaSuccess},
             Case{1, dim3(32, 33), refused},
             Case{1, dim3(1, 1024), cudaSuccess},
             Case{1, dim3(1, 1025), refused},
             Case{1, dim3(1, 1, 64), cudaSuccess},
             Case{1, dim3(1, 1, 65), refused},
             Case{1, dim3(16, 1, 64), cudaSuccess},
             Case{1, dim3(17, 1, 64), refused},
             Case{1, dim3(1 << 16, 1 << 16, 1 << 16), refused},
             Case{1, 0, refused},
             Case{1, dim3(1, 0), refused},
             Case{1, dim3(1, 1, 0), refused},
             Case{0, 1, refused},
             Case{dim3(1, 0), 1, refused},
             Case{dim3(1, 1, 0), 1, refused},
             Case{dim3(1, 65535), 1, cudaSuccess},
             Case{dim3(1, 65536), 1, refused},
             Case{dim3(1, 1, 65535), 1, cudaSuccess},
             Case{dim3(1, 1, 65536), 1, refused},
             Case{dim3(70000), 1, cudaSuccess},
             Case{dim3(0x80000000u), 1, refused},
         })
        EXPECT_EQ(try_launch({.grid = grid, .block = block}, kernel), expected)
            << grid.x << " " << grid.y << " " << grid.z << ", " << block.x << " " << block.y << " " << block.z;
}

TEST(Launch, ConfigurationErrorsThrowWithTheirCode) {
    try {
        run(
            {.block = 1025}, [] {}, "wide_kernel");
        FAIL() << "accepted 1025 threads";
    } catch (const LaunchError& error) {
        EXPECT_EQ(error.code, 9) << "CUDA's own number";
        EXPECT_EQ(error.code_name, "cudaErrorInvalidConfiguration");
        EXPECT_EQ(error.call, "cudaLaunchKernelEx");
        const std::string message = error.what();
        EXPECT_EQ(message.find("shared memory"), std::string::npos) << message;
        for (const char* words : {"(1025, 1, 1)", "1025 threads", "allows 1024", "use smaller blocks"})
            EXPECT_NE(message.find(words), std::string::npos) << message;
    }
}

TEST(Launch, ARefusalNamesTheLimitThatIsBroken) {
    struct Case {
        dim3 grid, block;
        const char* words;
    };
    for (const Case& c :
         {Case{0, 32, "at least 1"}, Case{dim3(1, 65536), 32, "larger than (2147483647, 65535, 65535)"},
          Case{1, dim3(1, 1, 65), "larger than (1024, 1024, 64)"}, Case{1, dim3(32, 0), "at least 1"}}) {
        try {
            run({.grid = c.grid, .block = c.block}, [] {});
            ADD_FAILURE() << "accepted: " << c.words;
        } catch (const LaunchError& error) {
            EXPECT_NE(std::string(error.what()).find(c.words), std::string::npos) << error.what();
        }
    }
}

TEST(StaticShared, CountsAgainstWhatABlockGets) {
    const ScopedCpuDevice h200(device_from(device_profile("h200")));
    int ran = 0;
    constexpr int fixed = 40000, optin = 232448;
    EXPECT_EQ(launch_with(kernel_with_array<fixed>, 0, ran), cudaSuccess);
    EXPECT_EQ(launch_with(kernel_with_array<fixed>, 48 * 1024 - fixed, ran), cudaSuccess);
    EXPECT_EQ(ran, 1);
    EXPECT_EQ(launch_with(kernel_with_array<fixed>, 48 * 1024 - fixed + 1, ran), cudaErrorInvalidValue);
    EXPECT_EQ(ran, 0);
    EXPECT_EQ(cudaFuncSetAttribute(kernel_with_array<fixed>, kSharedBytes, optin - fixed + 1), cudaErrorInvalidValue);
    EXPECT_EQ(cudaFuncSetAttribute(kernel_with_array<fixed>, kSharedBytes, optin - fixed), cudaSuccess);
    EXPECT_EQ(launch_with(kernel_with_array<fixed>, optin - fixed, ran), cudaSuccess);
    EXPECT_EQ(launch_with(kernel_with_array<fixed>, optin - fixed + 1, ran), cudaErrorInvalidValue);
    EXPECT_EQ(launch_with(kernel_with_array<48 * 1024>, 0, ran), cudaSuccess);
    EXPECT_EQ(launch_with(kernel_with_array<48 * 1024 + 4>, 0, ran), cudaErrorInvalidValue);
}

TEST(StaticShared, ARefusalSaysWhatTheArraysTake) {
    const ScopedCpuDevice h200(device_from(device_profile("h200")));
    int ran = 0;
    const auto refusal = [&](void (*kernel)(int*), std::size_t shared_bytes) -> std::string {
        try {
            launch("with_array", {.gridDim = 1, .blockDim = 32, .dynamicSmemBytes = shared_bytes}, kernel, &ran);
        } catch (const LaunchError& error) {
            return error.what();
        }
        return {};
    };
    EXPECT_EQ(refusal(kernel_with_array<1024>, 48 * 1024), "") << "launch() raises the limit itself";
    EXPECT_NE(refusal(kernel_with_array<1024>, 232448)
                  .find("asks for 232448 bytes of shared memory per block, the "
                        "kernel's __shared__ arrays take 1024 more, the device "
                        "allows 232448"),
              std::string::npos);
    EXPECT_NE(refusal(kernel_with_array<48 * 1024 + 128>, 0).find("__shared__ arrays take 49280 bytes"),
              std::string::npos);
}

TEST(LaunchBounds, MoreThreadsAreRefused) {
#ifndef SIMT_KEEPS_LAUNCH_BOUNDS
    GTEST_SKIP() << "this compiler does not keep the bounds";
#endif
    struct Case {
        void (*kernel)(int*);
        unsigned bound;  // the device's where the kernel has none
    };
    int number = 0;
    for (const Case& c : {Case{bound_kernel, 128}, Case{free_kernel, 1024}, Case{odd_bound_kernel, 129},
                          Case{warps_kernel<float, 4>, 128}, Case{warps_kernel<double, 4>, 256},
                          Case{warps_kernel<float, 32>, 1024}, Case{shape_kernel<32>, 96}, Case{shape_kernel<7>, 21},
                          Case{free_template_kernel<1>, 1024}, Case{empty_kernel, 1}, Case{hidden_kernel, 64},
                          Case{free_hidden_kernel, 1024}, Case{kernel_with_array<256>, 1024}}) {
        ++number;
        EXPECT_EQ(launch_bound_of(reinterpret_cast<const void*>(c.kernel)),
                  c.bound == 1024 && number != 6 ? 0 : c.bound)
            << "case " << number;
        int ran = 0;
        cudaLaunchConfig_t config{.gridDim = 1, .blockDim = c.bound};
        EXPECT_EQ(cudaLaunchKernelEx(&config, c.kernel, &ran), cudaSuccess) << "case " << number;
        EXPECT_EQ(ran, c.kernel == empty_kernel ? 0 : 1);
        ran = 0;
        config.blockDim = c.bound + 1;
        EXPECT_EQ(cudaLaunchKernelEx(&config, c.kernel, &ran),
                  c.bound == 1024 ? cudaErrorInvalidConfiguration : cudaErrorInvalidValue)
            << "case " << number;
        EXPECT_EQ(ran, 0) << "case " << number;
    }
}

TEST(LaunchBounds, AllDimensionsCount) {
#ifndef SIMT_KEEPS_LAUNCH_BOUNDS
    GTEST_SKIP() << "this compiler does not keep the bounds";
#endif
    int ran = 0;
    cudaLaunchConfig_t config{.gridDim = 1, .blockDim = dim3(8, 4, 4)};
    EXPECT_EQ(cudaLaunchKernelEx(&config, bound_kernel, &ran), cudaSuccess);
    config.blockDim = dim3(8, 4, 5);
    EXPECT_EQ(cudaLaunchKernelEx(&config, bound_kernel, &ran), cudaErrorInvalidValue);
}

TEST(LaunchBounds, ARefusalNamesThem) {
#ifndef SIMT_KEEPS_LAUNCH_BOUNDS
    GTEST_SKIP() << "this compiler does not keep the bounds";
#endif
    int ran = 0;
    try {
        launch("bounded", {.gridDim = 1, .blockDim = dim3(32, 8)}, shape_kernel<32>, &ran);
        FAIL() << "accepted 256 threads";
    } catch (const LaunchError& error) {
        EXPECT_EQ(error.kernel, "bounded");
        EXPECT_EQ(error.code, 1);
        EXPECT_EQ(error.launch_bound, 96u);
        EXPECT_NE(std::string(error.what()).find("bounded: cudaLaunchKernelEx failed with cudaErrorInvalidValue (1)"),
                  std::string::npos)
            << error.what();
        EXPECT_NE(std::string(error.what())
                      .find("a block (32, 8, 1) has 256 threads, the kernel's __launch_bounds__ "
                            "allow 96; launch at most so many"),
                  std::string::npos)
            << error.what();
    }
    const LaunchLog log;
    launch("bounded", {.gridDim = 1, .blockDim = 96}, shape_kernel<32>, &ran);
    EXPECT_EQ(log.records()[0].instance, "shape_kernel<32>") << "the kernel keeps its name";
}

TEST(Launch, ALogHasTheKernelsTemplateArguments) {
    int ran = 0;
    const LaunchLog log;
    launch("with_array", {.gridDim = 1, .blockDim = 32}, kernel_with_array<256>, &ran);
    ASSERT_EQ(log.records().size(), 1u);
    EXPECT_EQ(log.records()[0].instance, "kernel_with_array<256>");
}

TEST(Launch, ErrorCodesHaveCudasNamesAndTexts) {
    EXPECT_STREQ(cudaGetErrorName(cudaSuccess), "cudaSuccess");
    EXPECT_STREQ(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue");
    EXPECT_STREQ(cudaGetErrorName(cudaErrorInvalidConfiguration), "cudaErrorInvalidConfiguration");
    EXPECT_STREQ(cudaGetErrorString(cudaSuccess), "no error");
    EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument");
    EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidConfiguration), "invalid configuration argument");
    EXPECT_STREQ(cudaGetErrorName(cudaError_t(4)), "unrecognized error code");
}

TEST(Launch, EveryBlockAndThreadRunsOnceWithItsIndices) {
    for (const int workers : {1, 2, 5})
        for (const dim3 grid : {dim3(1), dim3(17), dim3(5, 3), dim3(3, 4, 5)})
            for (const dim3 block : {dim3(1), dim3(48), dim3(8, 6), dim3(2, 4, 6), dim3(6, 8)}) {
                const Workers restored(workers);
                std::vector<std::atomic<int>> visits(grid.volume() * block.volume());
                run({.grid = grid, .block = block}, [&visits, grid, block] {
                    EXPECT_TRUE(gridDim.x == grid.x && gridDim.y == grid.y && gridDim.z == grid.z);
                    EXPECT_TRUE(blockDim.x == block.x && blockDim.y == block.y && blockDim.z == block.z);
                    ASSERT_TRUE(blockIdx.x < grid.x && blockIdx.y < grid.y && blockIdx.z < grid.z);
                    ASSERT_TRUE(threadIdx.x < block.x && threadIdx.y < block.y && threadIdx.z < block.z);
                    __syncthreads();  // indices must survive a switch
                    const std::size_t b = blockIdx.x + grid.x * (blockIdx.y + std::size_t{grid.y} * blockIdx.z);
                    const std::size_t t = threadIdx.x + block.x * (threadIdx.y + std::size_t{block.y} * threadIdx.z);
                    ++visits[b * block.volume() + t];
                });
                for (const auto& count : visits) ASSERT_EQ(count, 1);
            }
}

TEST(Launch, ArgumentsAreCopiedForEveryThread) {
    std::vector<int> values = {1, 2, 3};
    int sum = 0;
    const cudaLaunchConfig_t config{.gridDim = 1, .blockDim = 4};
    void (*kernel)(std::vector<int>, int*, float) = [](std::vector<int> mine, int* sum, float factor) {
        mine[0] += 10;  // of this thread's copy
        *sum += int(float(mine[0]) * factor);
    };
    EXPECT_EQ(cudaLaunchKernelEx(&config, kernel, values, &sum, 2), cudaSuccess);
    EXPECT_EQ(sum, 4 * 22);
    EXPECT_EQ(values[0], 1);
}

/// A kernel whose result depends on everything: indices, shared memory, shuffles, barriers.
std::vector<float> scramble(int blocks) {
    std::vector<float> out(std::size_t(blocks) * 96);
    run({.grid = unsigned(blocks), .block = 96, .shared_bytes = 96 * sizeof(float)}, [&out] {
        const auto tile = SharedArena().tile<float, 1, 96>("tile");
        const int thread = int(threadIdx.x);
        float x = std::sin(float(blockIdx.x * 96 + threadIdx.x));
        for (int round = 0; round < 4; ++round) {
            x += 0.5f * __shfl_xor_sync(0xffffffffu, x, 1 << round);
            tile(0, thread) = x;
            __syncthreads();
            x = tile(0, (thread * 5 + round) % 96) - 0.1f * x;
            __syncthreads();
        }
        out[blockIdx.x * 96 + threadIdx.x] = x;
    });
    return out;
}

TEST(Workers, ResultsDoNotDependOnTheirNumber) {
    std::vector<std::vector<float>> results;
    for (const int workers : {1, 2, 3, 16}) {
        const Workers restored(workers);
        results.push_back(scramble(50));
    }
    for (const auto& result : results) EXPECT_EQ(result, results.front());
}

TEST(Workers, CountersDoNotDependOnTheirNumber) {
    Buffer<float> buffer("workers_out", {50, 32});
    const auto out = buffer.view<2>();
    for (const int workers : {1, 2, 16}) {
        const Workers restored(workers);
        const LaunchLog log;
        run({.grid = 50}, [=] {
            __syncthreads();
            out(blockIdx.x, threadIdx.x) = 1.0f;
        });
        EXPECT_EQ(log.total().global_bytes_written(), 50u * 32 * 4);
        EXPECT_EQ(log.total().block_barriers, 50u);
        ASSERT_EQ(log.total().tensors.size(), 1u);
        EXPECT_EQ(log.total().tensors[0].sectors_written, 50u * 4);
    }
}

TEST(Workers, AreReallyUsed) {
    const Workers restored(4);
    std::mutex mutex;
    std::set<std::thread::id> threads;
    for (int attempt = 0; attempt < 100 && threads.size() < 2; ++attempt)
        run({.grid = 200, .block = 64}, [&] {
            __syncthreads();
            if (threadIdx.x == 0) {
                const std::scoped_lock lock(mutex);
                threads.insert(std::this_thread::get_id());
            }
        });
    EXPECT_GE(threads.size(), 2u);
}

TEST(Workers, NeedsAtLeastOne) {
    const int before = cpu_workers();
    EXPECT_GE(before, 1);
    for (const int count : {0, -3}) {
        try {
            set_cpu_workers(count);
            FAIL() << "accepted " << count;
        } catch (const std::invalid_argument& error) {
            EXPECT_NE(std::string(error.what()).find("got " + std::to_string(count)), std::string::npos)
                << error.what();
        }
    }
    EXPECT_EQ(cpu_workers(), before);
}

TEST(Device, ImitationEndsWithItsScope) {
    const std::string before = cpu_device().name;
    {
        const ScopedCpuDevice h200(device_from(device_profile("h200")));
        EXPECT_EQ(cpu_device().name, device_profile("h200").product);
        const ScopedCpuDevice t4(device_from(device_profile("t4")));
        EXPECT_EQ(cpu_device().shared_bytes_per_block_optin, 64 * 1024);
    }
    EXPECT_EQ(cpu_device().name, before);
    EXPECT_EQ(before, device_profile(kDefaultProfile).product);
}

TEST(LaunchLog, RecordsWhatWasLaunched) {
    const LaunchLog log;
    EXPECT_TRUE(log.records().empty());
    run(
        {.grid = dim3(2, 3, 4), .block = dim3(8, 2, 2), .shared_bytes = 100}, [] { __syncthreads(); }, "first");
    run(
        {.grid = 5}, [] { __syncwarp(); }, "second");
    ASSERT_EQ(log.records().size(), 2u);
    const LaunchRecord& first = log.records()[0];
    EXPECT_EQ(first.kernel, "first");
    EXPECT_EQ(first.grid, (std::array<unsigned, 3>{2, 3, 4}));
    EXPECT_EQ(first.block, (std::array<unsigned, 3>{8, 2, 2}));
    EXPECT_EQ(first.shared_bytes_per_block, 100u);
    EXPECT_EQ(first.blocks(), 24u);
    EXPECT_TRUE(first.counted);
    EXPECT_EQ(first.counters.block_barriers, 24u);
    EXPECT_EQ(log.records()[1].counters.warp_collectives, 5u);
    EXPECT_EQ(log.records()[1].counters.block_barriers, 0u) << "counters of one launch, not of all so far";
    EXPECT_EQ(log.total().block_barriers, 24u);
}

TEST(LaunchLog, TheInnermostListens) {
    const auto kernel = [] {};
    const LaunchLog outer;
    run({}, kernel, "one");
    {
        const LaunchLog inner;
        run({}, kernel, "two");
        run({}, kernel, "three");
        EXPECT_EQ(inner.records().size(), 2u);
    }
    run({}, kernel, "four");
    ASSERT_EQ(outer.records().size(), 2u);
    EXPECT_EQ(outer.records()[1].kernel, "four");
}

TEST(LaunchLog, HearsNothingOfFailedLaunchesNorOfOtherThreads) {
    const LaunchLog log;
    EXPECT_TRUE(fault_of({}, [] { __syncwarp(1u); }));
    EXPECT_THROW(run({.block = 2000}, [] {}), LaunchError);
    std::jthread([] { run({}, [] {}); }).join();
    EXPECT_TRUE(log.records().empty());
    run({}, [] {});
    EXPECT_EQ(log.records().size(), 1u);
}

TEST(Launch, ANameIsForOneLaunchOnly) {
    run(
        {}, [] {}, "named_kernel");
    try {
        try_launch({}, [] { __syncwarp(1u); });
        FAIL() << "not found";
    } catch (const MachineError& error) {
        EXPECT_EQ(error.report().kernel, "kernel") << "the name of an earlier launch would mislead";
    }
}

TEST(HostThreads, LaunchAtTheSameTime) {
    const std::vector<float> expected = scramble(20);
    std::atomic<int> wrong = 0, faults = 0;
    {
        std::vector<std::jthread> hosts;
        for (int host = 0; host < 4; ++host)
            hosts.emplace_back([&, host] {
                for (int repeat = 0; repeat < 20; ++repeat) {
                    const LaunchLog log;
                    if (scramble(20) != expected) ++wrong;
                    if (log.records().size() != 1 || log.total().block_barriers != 20u * 8) ++wrong;
                    if (host % 2 && fault_of({.grid = 8}, [] { __syncwarp(1u); })) ++faults;
                }
            });
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(faults, 2 * 20);
}

// Blocks (and what they know of a block's shape) are lent to whichever thread launches next.
TEST(HostThreads, TakeTurnsWithBlocksOfOneSizeAndAnotherShape) {
    const Workers restored(1);
    const auto check = [](dim3 block) {
        std::set<std::array<unsigned, 3>> seen;
        run({.block = block}, [&seen] {
            EXPECT_TRUE(threadIdx.x < blockDim.x && threadIdx.y < blockDim.y && threadIdx.z < blockDim.z);
            seen.insert({threadIdx.x, threadIdx.y, threadIdx.z});
        });
        EXPECT_EQ(seen.size(), block.volume());
    };
    check(dim3(8, 6));
    std::jthread([&] { check(dim3(48)); }).join();
    check(dim3(8, 6));
    std::jthread([&] { check(dim3(6, 8)); }).join();
    check(dim3(8, 3, 2));
    check(dim3(8, 6));
}

}  // namespace
}  // namespace simt::testing
