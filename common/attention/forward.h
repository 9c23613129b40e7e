#pragma once

// The one way from tensors to an attention kernel: check, describe, allocate, launch, see that all was written. An
// entry adds what is its own: its kernels, the masks that they know, which of them suits a problem, and what helps
// where none does.

#include <initializer_list>
#include <string>

#include "common/attention/arguments.h"
#include "common/attention/machine.h"
#include "common/attention/options.h"
#include "common/attention/outputs.h"
#include "common/torch/torch.h"

namespace ladder {

/// One attention problem, checked and in plain numbers: what every entry begins with, once. There are no results as
/// yet: `out` shows q, whose shape and type it will have. Throws std::invalid_argument for whatever check_attention()
/// refuses.
AttentionArguments checked_arguments(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options, std::initializer_list<Mask> masks = {Mask::none});

/// One kernel as its phase describes it. Arguments are AttentionArguments, or what a phase derives from them.
template <class Arguments = AttentionArguments>
struct ForwardKernel {
    const char* name;                                         ///< of its entry, for messages
    void (*on_cpu)(const Arguments&);                         ///< launches it on the CPU machine
    void (*on_cuda)(const Arguments&);                        ///< on the GPU; null in a build without CUDA
    GlobalBytes (*bytes)(const Arguments&);                   ///< what it moves to and from global memory
    std::size_t (*shared_bytes)(const Arguments&) = nullptr;  ///< what a block of it needs
    void (*check)(const std::string& name, const torch::Tensor& q,
                  std::size_t shared_bytes) = nullptr;  ///< throws where it cannot run; null: it runs anywhere
};

/// Memory for O and LSE, which `arguments` then show.
AttentionResult allocate_result(const torch::Tensor& q, AttentionArguments& arguments);

/// Runs `kernel` on the machine that holds q, and returns O and LSE. `workspace(result, arguments)` may allocate more
/// and show it to the kernel; what it returns lives until the kernel has been launched. Throws what kernel.check
/// throws, before anything is allocated, and simt::MachineError where the kernel left holes in its results.
template <class Arguments, class Workspace>
AttentionResult forward(const ForwardKernel<Arguments>& kernel, const torch::Tensor& q, Arguments arguments,
                        const Workspace& workspace) {
    if (kernel.check) kernel.check(kernel.name, q, kernel.shared_bytes(arguments));
    const AttentionResult result = allocate_result(q, arguments);
    [[maybe_unused]] const auto memory = workspace(result, arguments);
    run_on(q.device(), kernel.on_cpu, kernel.on_cuda, arguments);
    check_written(kernel.name, result);
    return result;
}

/// The same for a kernel that needs no more than its arguments.
template <class Arguments>
AttentionResult forward(const ForwardKernel<Arguments>& kernel, const torch::Tensor& q, const Arguments& arguments) {
    return forward(kernel, q, arguments, [](const AttentionResult&, const Arguments&) { return 0; });
}

}  // namespace ladder
