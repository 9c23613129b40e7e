#include "phase0_softmax/softmax.h"

#include <stdexcept>

#include "common/attention/check.h"
#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "common/attention/registration.h"
#include "phase0_softmax/softmax_arguments.h"

namespace ladder {

// softmax.cuh and resident_softmax.cuh, compiled once per machine.
namespace cpu {
void launch_safe_softmax(const SoftmaxArguments&);
void launch_online_softmax(const SoftmaxArguments&);
void launch_block_plain_softmax(const SoftmaxArguments&);
void launch_resident_softmax(const ResidentSoftmaxArguments&);
GlobalBytes safe_softmax_bytes(const SoftmaxArguments&);
GlobalBytes online_softmax_bytes(const SoftmaxArguments&);
GlobalBytes block_plain_softmax_bytes(const SoftmaxArguments&);
GlobalBytes resident_softmax_bytes(const ResidentSoftmaxArguments&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_safe_softmax(const SoftmaxArguments&);
[[gnu::weak]] void launch_online_softmax(const SoftmaxArguments&);
[[gnu::weak]] void launch_block_plain_softmax(const SoftmaxArguments&);
[[gnu::weak]] void launch_resident_softmax(const ResidentSoftmaxArguments&);
}  // namespace cuda

namespace {

void check_softmax(const torch::Tensor& x) {
    check_tensor("x", x, 2);
    if (x.size(0) > kMaxLength)
        throw std::invalid_argument("x: the shape is " + shape_of(x) + "; at most " + std::to_string(kMaxLength) +
                                    " rows are accepted, split them over several calls");
}

SoftmaxArguments softmax_arguments(const torch::Tensor& x, const torch::Tensor& y) {
    return {.x = tensor_argument("x", x), .y = tensor_argument("y", y)};
}

ResidentSoftmaxArguments resident_arguments(const torch::Tensor& x, const torch::Tensor& y) {
    const SoftmaxArguments arguments = softmax_arguments(x, y);
    return {arguments, resident_row(device_limits(x.device()), arguments.x.type, arguments.columns())};
}

/// Runs one of the kernels; `arguments` makes what it is given from x and y.
template <class Arguments>
torch::Tensor softmax(const char* entry, const torch::Tensor& x,
                      Arguments (*arguments)(const torch::Tensor&, const torch::Tensor&),
                      void (*on_cpu)(const Arguments&), void (*on_cuda)(const Arguments&)) {
    torch::Tensor y = allocate(x.sizes(), x.options());
    run_on(x.device(), on_cpu, on_cuda, arguments(x, y));
    check_written(entry, "y", y);
    return y;
}

torch::Tensor checked_softmax(const char* entry, const torch::Tensor& x, void (*on_cpu)(const SoftmaxArguments&),
                              void (*on_cuda)(const SoftmaxArguments&)) {
    check_softmax(x);
    return softmax<SoftmaxArguments>(entry, x, softmax_arguments, on_cpu, on_cuda);
}

/// Rows of y are as long as those of x, and begin one where another ends.
bool rows_are_aligned(const torch::Tensor& x) { return tensor_argument("x", x).rows_aligned_to_16_bytes(); }

/// Only rows that wait in shared memory are copied asynchronously.
bool needs_asynchronous_copies(const torch::Tensor& x) {
    return resident_arguments(x, x).plan.keep == Keep::shared_memory;
}

bool can_be_resident(const torch::Tensor& x) {
    return rows_are_aligned(x) &&
           (!needs_asynchronous_copies(x) || device_limits(x.device()).has_feature(simt::Feature::cp_async));
}

void check_resident(const torch::Tensor& x) {
    check_softmax(x);
    if (!rows_are_aligned(x))
        throw std::invalid_argument(
            "resident_softmax: the rows of x do not all start and end at multiples of 16 bytes; "
            "block_softmax takes them");
    if (needs_asynchronous_copies(x))
        simt::require_feature(device_limits(x.device()), simt::Feature::cp_async, "resident_softmax");
}

}  // namespace

torch::Tensor safe_softmax(const torch::Tensor& x) {
    return checked_softmax("safe_softmax", x, cpu::launch_safe_softmax, cuda::launch_safe_softmax);
}

torch::Tensor online_softmax(const torch::Tensor& x) {
    return checked_softmax("online_softmax", x, cpu::launch_online_softmax, cuda::launch_online_softmax);
}

torch::Tensor block_plain_softmax(const torch::Tensor& x) {
    return checked_softmax("block_plain_softmax", x, cpu::launch_block_plain_softmax, cuda::launch_block_plain_softmax);
}

torch::Tensor resident_softmax(const torch::Tensor& x) {
    check_resident(x);
    return softmax<ResidentSoftmaxArguments>("resident_softmax", x, resident_arguments, cpu::launch_resident_softmax,
                                             cuda::launch_resident_softmax);
}

torch::Tensor block_softmax(const torch::Tensor& x) {
    check_softmax(x);
    return can_be_resident(x) ? resident_softmax(x) : block_plain_softmax(x);
}

GlobalBytes safe_softmax_bytes(const torch::Tensor& x) {
    check_softmax(x);
    return cpu::safe_softmax_bytes(softmax_arguments(x, x));
}

GlobalBytes online_softmax_bytes(const torch::Tensor& x) {
    check_softmax(x);
    return cpu::online_softmax_bytes(softmax_arguments(x, x));
}

GlobalBytes block_plain_softmax_bytes(const torch::Tensor& x) {
    check_softmax(x);
    return cpu::block_plain_softmax_bytes(softmax_arguments(x, x));
}

GlobalBytes resident_softmax_bytes(const torch::Tensor& x) {
    check_resident(x);
    return cpu::resident_softmax_bytes(resident_arguments(x, x));
}

GlobalBytes block_softmax_bytes(const torch::Tensor& x) {
    check_softmax(x);
    return can_be_resident(x) ? resident_softmax_bytes(x) : block_plain_softmax_bytes(x);
}

namespace {

torch::Tensor softmax_shape(const torch::Tensor& x) {
    check_rank("x", x, 2);
    return shaped_like(x, x.sym_sizes(), x.scalar_type());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(flash_ladder, library) {
    register_operator(library, "safe_softmax", "(Tensor x) -> Tensor", safe_softmax, softmax_shape);
    register_operator(library, "online_softmax", "(Tensor x) -> Tensor", online_softmax, softmax_shape);
    register_operator(library, "block_softmax", "(Tensor x) -> Tensor", block_softmax, softmax_shape);
}

}  // namespace ladder
