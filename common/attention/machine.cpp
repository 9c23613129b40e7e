#include "common/attention/machine.h"

#include <cmath>
#include <stdexcept>

#ifdef LADDER_WITH_CUDA
#include <c10/cuda/CUDAStream.h>
#endif

namespace ladder {
namespace {

simt::ElementType element_type(const torch::Tensor& tensor) {
    switch (tensor.scalar_type()) {
        case torch::kFloat32:
            return simt::ElementType::f32;
        case torch::kFloat16:
            return simt::ElementType::f16;
        case torch::kBFloat16:
            return simt::ElementType::bf16;
        case torch::kInt32:
            return simt::ElementType::i32;
        default:
            throw std::invalid_argument(std::string("no kernel takes tensors of dtype ") +
                                        toString(tensor.scalar_type()));
    }
}

}  // namespace

simt::Device device_limits(torch::Device device) {
    if (!device.is_cuda()) return simt::cpu_device();
    const OnDevice here(device);
    return simt::cuda_device();
}

simt::TensorArgument tensor_argument(const char* name, const torch::Tensor& tensor) {
    simt::TensorArgument argument{
        .name = name, .data = tensor.data_ptr(), .type = element_type(tensor), .rank = int(tensor.dim())};
    for (int64_t i = 0; i < tensor.dim(); ++i) {
        argument.extents[i] = tensor.size(i);
        // A dimension of size 1 may carry any stride, and the last one must be contiguous.
        argument.strides[i] = tensor.size(i) == 1 && i + 1 == tensor.dim() ? 1 : tensor.stride(i);
    }
    return argument;
}

AttentionArguments attention_arguments(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                       const torch::Tensor& out, const torch::Tensor& lse,
                                       const AttentionOptions& options) {
    const simt::Device device = device_limits(q.device());
    return {.q = tensor_argument("Q", q),
            .k = tensor_argument("K", k),
            .v = tensor_argument("V", v),
            .out = tensor_argument("O", out),
            .lse = lse.defined() ? tensor_argument("LSE", lse) : simt::TensorArgument{},
            .scale = static_cast<float>(options.scale.value_or(1.0 / std::sqrt(double(q.size(3))))),
            .mask = options.mask,
            .multiprocessors = device.multiprocessors,
            .shared_bytes_per_block = device.shared_bytes_per_block_optin,
            .shared_bytes_per_multiprocessor = device.shared_bytes_per_multiprocessor};
}

OnDevice::OnDevice(torch::Device device) : device_(device) {
    if (!device.is_cuda()) return;
#ifdef LADDER_WITH_CUDA
    guard_.reset_device(device);
#else
    throw std::runtime_error(
        "the tensors are on a CUDA device, but this build has no CUDA kernels: build with the CUDA Toolkit and a CUDA "
        "libtorch (./ladder doctor says what is missing), or move the tensors to the CPU");
#endif
}

void* OnDevice::stream() const {
#ifdef LADDER_WITH_CUDA
    if (device_.is_cuda()) return c10::cuda::getCurrentCUDAStream(device_.index()).stream();
#endif
    return nullptr;
}

}  // namespace ladder
