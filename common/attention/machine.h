#pragma once

#include "common/attention/arguments.h"
#include "common/attention/options.h"
#include "common/simt/device/device.h"
#include "common/torch/torch.h"

namespace ladder {

/// The limits that a launch on `device` must keep: the real GPU's, or those of the device that the CPU machine
/// imitates. Throws std::runtime_error for a CUDA device in a build without CUDA.
simt::Device device_limits(torch::Device device);

/// A tensor in plain numbers. `name` is a literal, under which traffic is counted.
simt::TensorArgument tensor_argument(const char* name, const torch::Tensor& tensor);

/// The problem in plain numbers. `lse` may be undefined where a phase yields none.
AttentionArguments attention_arguments(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                       const torch::Tensor& out, const torch::Tensor& lse,
                                       const AttentionOptions& options);

/// Makes `device` the current one, and names the stream that PyTorch runs on there.
class OnDevice {
  public:
    /// Until this object ends, on this thread. Nothing to do for the CPU.
    explicit OnDevice(torch::Device device);

    /// PyTorch's current cudaStream_t on the device; null on the CPU.
    void* stream() const;

  private:
    c10::OptionalDeviceGuard guard_;
    torch::Device device_;
};

/// Calls the launch function of the machine that holds the tensors, with `arguments.stream` set. `on_cuda` is null in a
/// build without CUDA: declare it [[gnu::weak]].
template <class Arguments>
void run_on(torch::Device device, void (*on_cpu)(const Arguments&), void (*on_cuda)(const Arguments&),
            Arguments arguments) {
    const OnDevice here(device);
    arguments.stream = here.stream();
    (device.is_cuda() ? on_cuda : on_cpu)(arguments);
}

}  // namespace ladder
