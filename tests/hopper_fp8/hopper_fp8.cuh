// What the test of 8-bit attention launches: bf16 to e4m3, and e4m3 to bf16.

#include "common/attention/dispatch.cuh"
#include "tests/hopper_fp8/fp8_forward.cuh"
#include "tests/hopper_fp8/quantize.cuh"

namespace ladder::SIMT_MACHINE {

using Fp8HeadDims = std::integer_sequence<int, 64, 128, 256>;

void launch_hopper_fp8_quantization(const QuantizationArguments& a) {
    with_first_that_holds(Fp8HeadDims(), a.codes.extents[3], [&]<int D>(std::integral_constant<int, D>) {
        if (a.block_rows == kQueryBlock)
            launch_quantization<simt::bf16, D, kQueryBlock>(a);
        else
            launch_quantization<simt::bf16, D, kKeyBlock>(a);
    });
}

void launch_hopper_fp8(const Fp8Arguments& f) {
    with_first_that_holds(Fp8HeadDims(), f.a.head_dim(),
                          [&]<int D>(std::integral_constant<int, D>) { launch_fp8_forward<simt::bf16, D>(f); });
}

}  // namespace ladder::SIMT_MACHINE
