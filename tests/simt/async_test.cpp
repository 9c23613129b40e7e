// cp.async does the same on both machines: the pipelines of async.cuh, bit for bit.

#include "tests/simt/async.h"

#include <gtest/gtest.h>

#include "tests/simt/on_device.h"

namespace ladder {

// async.cuh, compiled once per machine.
namespace cpu {
void launch_pipeline(const PipelineTrial&);
void launch_plain_copy(const PipelineTrial&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_pipeline(const PipelineTrial&);
[[gnu::weak]] void launch_plain_copy(const PipelineTrial&);
}  // namespace cuda

namespace {

torch::Tensor random_bits(int64_t rows, int64_t columns, int element_bytes) {
    const auto type = element_bytes == 2 ? torch::kInt16 : torch::kInt32;
    return torch::randint(1, 30000, {rows, columns}, type);
}

struct Copying {
    int bytes;
    bool through_l1;
};

TEST(AsyncCopy, PipelinesMoveEveryBitAndFillUpWithZeros) {
    if (not_run_before_ampere()) return;
    for (const int element_bytes : {2, 4})
        for (const Copying copying : {Copying{4, false}, Copying{8, false}, Copying{16, false}, Copying{16, true}})
            for (const int stages : {1, 2, 3})
                for (const int rows : {1, 15, 16, 17, 48, 50})
                    for (const int columns : {8, 24, kPipelineColumns}) {
                        // The tensor is a part of a larger one, whose other elements must not arrive.
                        const torch::Tensor whole = random_bits(rows + 3, kPipelineColumns + 8, element_bytes);
                        const int tiles = (rows + kPipelineRows - 1) / kPipelineRows;
                        torch::Tensor expected =
                            torch::zeros({tiles * kPipelineRows, kPipelineColumns}, whole.options());
                        expected.narrow(0, 0, rows).narrow(1, 0, columns) =
                            whole.narrow(0, 0, rows).narrow(1, 0, columns);
                        for (const torch::Device device : machines()) {
                            SCOPED_TRACE(device.str() + ": " + std::to_string(rows) + " x " + std::to_string(columns) +
                                         " of " + std::to_string(element_bytes) + " bytes, copied by " +
                                         std::to_string(copying.bytes) + (copying.through_l1 ? " through L1, " : ", ") +
                                         std::to_string(stages) + " stages");
                            const torch::Tensor in = whole.to(device).narrow(0, 0, rows).narrow(1, 0, columns);
                            const torch::Tensor out = torch::full_like(expected, -1, in.options());
                            run_on(device, cpu::launch_pipeline, cuda::launch_pipeline,
                                   PipelineTrial{.in = raw_argument("in", in),
                                                 .out = raw_argument("out", out),
                                                 .element_bytes = element_bytes,
                                                 .copy_bytes = copying.bytes,
                                                 .through_l1 = copying.through_l1,
                                                 .stages = stages});
                            ASSERT_TRUE(same_bits(out, expected));
                        }
                    }
}

TEST(AsyncCopy, MovesOneVectorAThread) {
    if (not_run_before_ampere()) return;
    const torch::Tensor whole = torch::randn({32, 4});
    const torch::Tensor swapped = whole.view({16, 2, 4}).flip(1).reshape({32, 4});  // each row with its neighbour
    for (const torch::Device device : machines()) {
        SCOPED_TRACE(device.str());
        const torch::Tensor in = whole.to(device), out = torch::full_like(in, NAN);
        run_on(device, cpu::launch_plain_copy, cuda::launch_plain_copy,
               PipelineTrial{.in = raw_argument("in", in), .out = raw_argument("out", out)});
        EXPECT_TRUE(same_bits(out, swapped));
    }
}

}  // namespace
}  // namespace ladder
