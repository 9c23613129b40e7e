#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/reference/run_tests.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device.h"
#include "common/torch/torch.h"

namespace ladder::reference {
namespace {

constexpr int kNotRun = 77;  // What CTest's SKIP_RETURN_CODE is set to.

torch::Device chosen_device = torch::kCPU;
std::vector<std::string> not_run_here;  // "Fa2.MovesWhatTheFormulaSays: nothing counts on the GPU"

void note_not_run(std::string_view why) {
    const auto& test = *::testing::UnitTest::GetInstance()->current_test_info();
    not_run_here.push_back(std::string(test.test_suite_name()) + "." + test.name() + ": " + std::string(why));
}

/// Why no tensor can live on the GPU here; nothing when one can.
std::optional<std::string> why_no_cuda() {
    if (!at::detail::getCUDAHooks().hasCUDART()) return "this libtorch is built without CUDA";
    try {
        at::ones({1}, at::TensorOptions().device(torch::kCUDA)).cpu();
        return std::nullopt;
    } catch (const c10::Error& error) {
        const std::string message = error.what_without_backtrace();
        return message.substr(0, message.find('\n'));
    } catch (const std::exception& error) {
        return error.what();
    }
}

/// Parses what GoogleTest left in argv. Returns false, after saying why, on anything but --device=cpu|cuda.
bool parse_device(int argc, char** argv) {
    constexpr std::string_view kFlag = "--device=";
    for (int n = 1; n < argc; ++n) {
        const std::string_view argument = argv[n];
        const auto value = argument.starts_with(kFlag) ? argument.substr(kFlag.size()) : std::string_view{};
        if (value == "cpu") {
            chosen_device = torch::kCPU;
        } else if (value == "cuda") {
            chosen_device = torch::Device(torch::kCUDA, 0);
        } else {
            std::cerr << "unknown argument \"" << argument
                      << "\": use --device=cpu, --device=cuda or a --gtest_ flag\n";
            return false;
        }
    }
    return true;
}

int run_all(int argc, char** argv) {
    ::testing::InitGoogleTest(&argc, argv);
    if (!parse_device(argc, argv)) return EXIT_FAILURE;
    if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();

    const auto binary = std::filesystem::path(argv[0]).filename().string();
    if (chosen_device.is_cuda()) {
        if (const auto reason = why_no_cuda()) {
            std::cout << "NOT RUN: " << binary << " on cuda: " << *reason << std::endl;
            return kNotRun;
        }
    }
    // The CPU machine has workers of its own; libtorch's would only compete with them for the same cores.
    at::set_num_threads(1);
    at::manual_seed(0);  // the same inputs on every run: a failure must come back when one looks for it

    const int result = run_tests(binary);
    const char* const where = chosen_device.is_cuda() ? " on cuda: " : " on cpu: ";
    for (const std::string& test : not_run_here) std::cout << "NOT RUN: " << binary << where << test << '\n';
    const auto selected = std::size_t(::testing::UnitTest::GetInstance()->test_to_run_count());
    return result == EXIT_SUCCESS && selected == not_run_here.size() ? kNotRun : result;
}

}  // namespace

torch::Device test_device() { return chosen_device; }

bool not_run_on_gpu(std::string_view why) {
    if (!chosen_device.is_cuda()) return false;
    note_not_run(why);
    return true;
}

bool not_run_for_want_of(std::string_view missing) {
    if (missing.empty()) return false;
    note_not_run(missing);
    return true;
}

bool not_run_without_counters() {
    if (!chosen_device.is_cuda() && simt::cpu_machine_checks()) return false;
    note_not_run(chosen_device.is_cuda() ? "nothing counts on the GPU" : "nothing counts in a build without checks");
    return true;
}

}  // namespace ladder::reference

int main(int argc, char** argv) { return ladder::reference::run_all(argc, argv); }
