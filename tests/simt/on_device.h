#pragma once

// What the tests share that run one kernel on both machines.

#include <gtest/gtest.h>

#include <vector>

#include "common/attention/machine.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device.h"
#include "common/torch/torch.h"
#include "tests/simt/raw_argument.h"

namespace ladder {

/// The devices that a comparing test uses: the CPU machine always, the GPU too under --device=cuda.
inline std::vector<torch::Device> machines() {
    std::vector<torch::Device> devices{torch::kCPU};
    if (reference::test_device().is_cuda()) devices.push_back(reference::test_device());
    return devices;
}

/// True on a GPU that lacks asynchronous copies and mma.m16n8k16; the test is then listed as not run.
inline bool not_run_before_ampere() {
    const torch::Device device = reference::test_device();
    if (!device.is_cuda()) return false;
    const simt::Device limits = device_limits(device);
    return !(limits.has_feature(simt::Feature::cp_async) && limits.has_feature(simt::Feature::mma)) &&
           reference::not_run_on_gpu("needs asynchronous copies (cp.async) and mma.m16n8k16");
}

/// Whether two tensors hold the same bits; equal() would say no to NaN.
inline ::testing::AssertionResult same_bits(const torch::Tensor& got, const torch::Tensor& expected) {
    const auto bits = [](const torch::Tensor& t) { return t.cpu().contiguous().view(torch::kUInt8); };
    if (got.sizes() != expected.sizes()) return ::testing::AssertionFailure() << "shapes differ";
    const torch::Tensor wrong = bits(got).ne(bits(expected)).nonzero();
    if (wrong.size(0) == 0) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << wrong.size(0) << " bytes of " << bits(got).numel()
                                         << " differ, the first at byte index " << wrong[0];
}

}  // namespace ladder
