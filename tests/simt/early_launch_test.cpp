// Launches that may start while the one before still runs: what they may touch before they have waited for it.

#include <gtest/gtest.h>

#include "tests/simt/fault_checks.h"

namespace simt::testing {
namespace {

constexpr int kThreads = 64;

using Numbers = GlobalTensor<float, 1>;

/// The memory of a test, and views of it.
struct Memory {
    std::vector<float> first = std::vector<float>(kThreads), second = std::vector<float>(kThreads);
    static Numbers view(const char* name, std::vector<float>& values) {
        return global_tensor<float, 1>(
            {.name = name, .data = values.data(), .rank = 1, .extents = {kThreads}, .strides = {1}});
    }
    Numbers a = view("A", first), b = view("B", second);
};

template <class... Parameters>
cudaError_t launch(bool early, void (*kernel)(Parameters...), Parameters... arguments) {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = early;
    cudaLaunchConfig_t config{};
    config.gridDim = 1;
    config.blockDim = kThreads;
    config.attrs = &attribute;
    config.numAttrs = 1;
    name_next_launch(early ? "second_kernel" : "first_kernel");
    return cudaLaunchKernelEx(&config, kernel, arguments...);
}

void write_a(Numbers a, Numbers) {
    let_next_kernel_start();
    a(threadIdx.x) = 1.0f;  // @writes
}
void read_b(Numbers a, Numbers b) {
    const float x = b(threadIdx.x);  // @reads
    if (x > 1e9f) a(threadIdx.x) = x;
}
void copy_at_once(Numbers a, Numbers b) {
    const float x = a(threadIdx.x);  // @too_early
    wait_for_previous_kernel();
    b(threadIdx.x) = x;
}
void copy_after_waiting(Numbers a, Numbers b) {
    wait_for_previous_kernel();
    b(threadIdx.x) = a(threadIdx.x);
}
void one_waits_for_all(Numbers a, Numbers b) {
    if (threadIdx.x == 0) wait_for_previous_kernel();
    __syncthreads();
    b(threadIdx.x) = a(threadIdx.x);
}
void one_waits_for_itself(Numbers a, Numbers b) {
    if (threadIdx.x == 0) wait_for_previous_kernel();
    b(threadIdx.x) = a(threadIdx.x);  // @did_not_wait
}
void overwrite_b(Numbers, Numbers b) {
    b(threadIdx.x) = 2.0f;  // @overwrites
}
void only_b(Numbers, Numbers b) {
    b(threadIdx.x) = 2.0f;
    wait_for_previous_kernel();
}

class EarlyLaunch : public ::testing::Test {
  protected:
    using Kernel = void (*)(Numbers, Numbers);

    /// What the machine says of `second`, launched early after `first`.
    std::optional<MachineError> diagnosis(Kernel first, Kernel second) {
        EXPECT_EQ(launch(false, first, memory_.a, memory_.b), cudaSuccess);
        try {
            EXPECT_EQ(launch(true, second, memory_.a, memory_.b), cudaSuccess);
        } catch (const MachineError& error) {
            return error;
        }
        return std::nullopt;
    }

    void expect_race(Kernel first, Kernel second, int thread, const char* mark, const char* other_mark,
                     const std::string& words) {
        const auto error = diagnosis(first, second);
        ASSERT_TRUE(error) << "not found";
        const MachineError::Report& report = error->report();
        EXPECT_EQ(report.fault, Fault::global_race);
        EXPECT_EQ(report.kernel, "second_kernel");
        EXPECT_EQ(report.first.thread, thread);
        EXPECT_EQ(report.first.site.text(), place(mark)) << error->what();
        EXPECT_EQ(report.second.thread, thread);
        EXPECT_EQ(report.second.site.text(), place(other_mark)) << error->what();
        EXPECT_NE(std::string(error->what()).find(words), std::string::npos) << error->what();
        EXPECT_NE(report.advice.find("wait_for_previous_kernel"), std::string::npos) << report.advice;
    }

    const ScopedCpuDevice imitated_{device_from(device_profile("h100"))};
    Memory memory_;
};

TEST_F(EarlyLaunch, ReadsBeforeItWaits) {
    expect_race(write_a, copy_at_once, 0, "too_early", "writes",
                "reads A(0), which first_kernel, the kernel before, writes");
}

TEST_F(EarlyLaunch, OneThreadsWaitIsItsOwn) {
    expect_race(write_a, one_waits_for_itself, 1, "did_not_wait", "writes", "reads A(1)");
}

TEST_F(EarlyLaunch, OverwritesWhatTheKernelBeforeReads) {
    expect_race(read_b, overwrite_b, 0, "overwrites", "reads",
                "writes B(0), which first_kernel, the kernel before, reads");
}

TEST_F(EarlyLaunch, WaitsAndIsRight) {
    for (const Kernel second : {copy_after_waiting, one_waits_for_all, only_b}) {
        const auto error = diagnosis(write_a, second);
        EXPECT_FALSE(error) << error->what();
    }
    EXPECT_EQ(memory_.second[5], 2.0f);
}

TEST_F(EarlyLaunch, WithoutTheAttributeNobodyNeedsToWait) {
    EXPECT_EQ(launch(false, write_a, memory_.a, memory_.b), cudaSuccess);
    EXPECT_EQ(launch(false, copy_at_once, memory_.a, memory_.b), cudaSuccess);
    EXPECT_EQ(memory_.second[63], 1.0f);
}

TEST_F(EarlyLaunch, OnlyTheLaunchBeforeMatters) {
    EXPECT_EQ(launch(false, write_a, memory_.a, memory_.b), cudaSuccess);
    EXPECT_EQ(launch(false, overwrite_b, memory_.a, memory_.b), cudaSuccess);
    EXPECT_EQ(launch(
                  true, +[](Numbers a, Numbers) { static_cast<void>(float(a(threadIdx.x))); }, memory_.a, memory_.b),
              cudaSuccess);
}

// Three in a row, and only the last one touches what the first one writes. Seen on an H200: the last one may run before
// the first one has ended, unless a block of the one between waits before it lets the next one start, or the last one
// waits itself.
TEST_F(EarlyLaunch, AKernelThatNeverWaitsLetsTheNextOneOvertakeTheOneBefore) {
    const auto report = [&](std::initializer_list<Kernel> between, Kernel last) -> std::optional<MachineError> {
        EXPECT_EQ(launch(false, write_a, memory_.a, memory_.b), cudaSuccess);
        for (const Kernel kernel : between) EXPECT_EQ(launch(true, kernel, memory_.a, memory_.b), cudaSuccess);
        try {
            EXPECT_EQ(launch(true, last, memory_.a, memory_.b), cudaSuccess);
        } catch (const MachineError& error) {
            return error;
        }
        return std::nullopt;
    };
    const Kernel nothing = [](Numbers, Numbers) {}, starts_next = [](Numbers, Numbers) { let_next_kernel_start(); },
                 starts_next_then_waits =
                     [](Numbers, Numbers) {
                         let_next_kernel_start();
                         wait_for_previous_kernel();
                     },
                 waits_then_starts_next =
                     [](Numbers, Numbers) {
                         wait_for_previous_kernel();
                         let_next_kernel_start();
                     },
                 only_waits = [](Numbers, Numbers) { wait_for_previous_kernel(); },
                 one_thread_waits = [](Numbers, Numbers) {
                     if (threadIdx.x == 7) wait_for_previous_kernel();
                 };
    for (const auto& between : {std::initializer_list<Kernel>{nothing},
                                {starts_next},
                                {starts_next_then_waits},
                                {nothing, starts_next},
                                {only_waits, starts_next_then_waits, nothing}}) {
        const bool overtakes = *between.begin() != only_waits;
        const auto error = report(between, copy_at_once);
        EXPECT_EQ(error.has_value(), overtakes) << between.size();
        if (!error || !overtakes) continue;
        EXPECT_EQ(error->report().fault, Fault::global_race);
        EXPECT_EQ(error->report().first.site.text(), place("too_early"));
        EXPECT_EQ(error->report().second.site.text(), place("writes"));
        const std::string words = "reads A(0), which first_kernel, " + std::to_string(between.size() + 1) +
                                  " kernels before, writes; this launch may have started before that one ended";
        EXPECT_NE(std::string(error->what()).find(words), std::string::npos) << error->what();
    }
    for (const Kernel between : {waits_then_starts_next, only_waits, one_thread_waits})
        EXPECT_FALSE(report({between}, copy_at_once));
    for (const Kernel between : {nothing, starts_next, starts_next_then_waits})
        EXPECT_FALSE(report({between, between}, copy_after_waiting)) << "a wait is for all that is under way";
}

TEST_F(EarlyLaunch, OvertakingAlsoHarmsWhatTheFirstOneReads) {
    EXPECT_EQ(launch(false, read_b, memory_.a, memory_.b), cudaSuccess);
    EXPECT_EQ(launch(
                  true, +[](Numbers, Numbers) {}, memory_.a, memory_.b),
              cudaSuccess);
    EXPECT_THROW(launch(true, overwrite_b, memory_.a, memory_.b), MachineError);
}

TEST_F(EarlyLaunch, ALaunchWithoutTheAttributeWaitsForAll) {
    EXPECT_EQ(launch(false, write_a, memory_.a, memory_.b), cudaSuccess);
    const auto nothing = +[](Numbers, Numbers) {};
    EXPECT_EQ(launch(true, nothing, memory_.a, memory_.b), cudaSuccess);
    EXPECT_EQ(launch(false, copy_at_once, memory_.a, memory_.b), cudaSuccess);
    EXPECT_EQ(launch(true, nothing, memory_.a, memory_.b), cudaSuccess);
    EXPECT_EQ(launch(
                  true, +[](Numbers a, Numbers) { static_cast<void>(float(a(threadIdx.x))); }, memory_.a, memory_.b),
              cudaSuccess)
        << "write_a ended before the launch in the middle";
}

TEST_F(EarlyLaunch, NeedsComputeCapability90) {
    const ScopedCpuDevice older(device_from(device_profile("a100")));
    EXPECT_EQ(launch(true, copy_after_waiting, memory_.a, memory_.b), cudaErrorNotSupported);
    EXPECT_EQ(launch(false, copy_after_waiting, memory_.a, memory_.b), cudaSuccess);
}

}  // namespace
}  // namespace simt::testing
