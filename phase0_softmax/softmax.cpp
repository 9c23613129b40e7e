#include "phase0_softmax/softmax.h"

#include <stdexcept>

#include "common/attention/allocate.h"
#include "common/attention/check.h"
#include "common/attention/check_written.h"
#include "common/attention/machine.h"
#include "common/attention/registration.h"
#include "phase0_softmax/softmax_arguments.h"

namespace ladder {

// softmax.cuh, compiled once per machine.
namespace cpu {
void launch_safe_softmax(const SoftmaxArguments&);
void launch_online_softmax(const SoftmaxArguments&);
void launch_block_softmax(const SoftmaxArguments&);
GlobalBytes safe_softmax_bytes(const SoftmaxArguments&);
GlobalBytes online_softmax_bytes(const SoftmaxArguments&);
GlobalBytes block_softmax_bytes(const SoftmaxArguments&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_safe_softmax(const SoftmaxArguments&);
[[gnu::weak]] void launch_online_softmax(const SoftmaxArguments&);
[[gnu::weak]] void launch_block_softmax(const SoftmaxArguments&);
}  // namespace cuda

namespace {

using Launch = void (*)(const SoftmaxArguments&);

void check_softmax(const torch::Tensor& x) {
    check_tensor("x", x, 2);
    if (x.size(0) > kMaxLength)
        throw std::invalid_argument("x: the shape is " + shape_of(x) + "; at most " + std::to_string(kMaxLength) +
                                    " rows are accepted, split them over several calls");
}

SoftmaxArguments softmax_arguments(const torch::Tensor& x, const torch::Tensor& y) {
    return {.x = tensor_argument("x", x), .y = tensor_argument("y", y)};
}

torch::Tensor softmax(const char* entry, const torch::Tensor& x, Launch on_cpu, Launch on_cuda) {
    check_softmax(x);
    torch::Tensor y = allocate(x.sizes(), x.options());
    run_on(x.device(), on_cpu, on_cuda, softmax_arguments(x, y));
    check_written(entry, "y", y);
    return y;
}

}  // namespace

torch::Tensor safe_softmax(const torch::Tensor& x) {
    return softmax("safe_softmax", x, cpu::launch_safe_softmax, cuda::launch_safe_softmax);
}

torch::Tensor online_softmax(const torch::Tensor& x) {
    return softmax("online_softmax", x, cpu::launch_online_softmax, cuda::launch_online_softmax);
}

torch::Tensor block_softmax(const torch::Tensor& x) {
    return softmax("block_softmax", x, cpu::launch_block_softmax, cuda::launch_block_softmax);
}

GlobalBytes safe_softmax_bytes(const torch::Tensor& x) {
    check_softmax(x);
    return cpu::safe_softmax_bytes(softmax_arguments(x, x));
}

GlobalBytes online_softmax_bytes(const torch::Tensor& x) {
    check_softmax(x);
    return cpu::online_softmax_bytes(softmax_arguments(x, x));
}

GlobalBytes block_softmax_bytes(const torch::Tensor& x) {
    check_softmax(x);
    return cpu::block_softmax_bytes(softmax_arguments(x, x));
}

TORCH_LIBRARY_FRAGMENT(flash_ladder, library) {
    library.def("safe_softmax(Tensor x) -> Tensor", safe_softmax);
    library.def("online_softmax(Tensor x) -> Tensor", online_softmax);
    library.def("block_softmax(Tensor x) -> Tensor", block_softmax);
}

}  // namespace ladder
