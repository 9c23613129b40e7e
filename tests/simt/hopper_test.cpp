// A kernel that is compiled for sm_90a runs where there is such a GPU, whatever the others are compiled for.

#include "tests/simt/hopper.h"

#include <gtest/gtest.h>

#include "tests/simt/on_device.h"

namespace ladder {

// hopper.cuh, compiled once per machine.
namespace cpu {
void launch_fenced_squares(const FencedSquares&);
}
namespace cuda {
[[gnu::weak]] void launch_fenced_squares(const FencedSquares&);
}

namespace {

TEST(HopperKernels, RunOnHopper) {
    const torch::Device device = reference::test_device();
    if (device.is_cuda() && !device_limits(device).has_feature(simt::Feature::wgmma)) {
        reference::not_run_on_gpu("needs wgmma");
        return;
    }
    const torch::Tensor out = torch::zeros({128}, torch::TensorOptions(torch::kInt32).device(device));
    run_on(device, cpu::launch_fenced_squares, cuda::launch_fenced_squares,
           FencedSquares{.out = raw_argument("out", out)});
    const torch::Tensor numbers = torch::arange(128, torch::kInt32);
    EXPECT_TRUE(same_bits(out, numbers * numbers));
}

}  // namespace
}  // namespace ladder
