#include "phase3_fa2/fa2.h"

#include "common/attention/check.h"
#include "common/attention/forward.h"
#include "common/attention/register_tiles.h"
#include "common/attention/registration.h"
#include "common/attention/rungs.h"

namespace ladder {

// fa2.cuh and fa2_tiled.cuh, compiled once per machine.
namespace cpu {
void launch_fa2_forward(const AttentionArguments&);
std::size_t fa2_shared_bytes(const AttentionArguments&);
GlobalBytes fa2_forward_bytes(const AttentionArguments&);
void launch_fa2_tiled(const AttentionArguments&);
std::size_t fa2_tiled_shared_bytes(const AttentionArguments&);
GlobalBytes fa2_tiled_bytes(const AttentionArguments&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_fa2_forward(const AttentionArguments&);
[[gnu::weak]] void launch_fa2_tiled(const AttentionArguments&);
}  // namespace cuda

namespace {

void check_plain(const std::string& name, const torch::Tensor& q, std::size_t shared_bytes) {
    check_shared_memory(name, shared_bytes, q.device(), "a smaller head dimension or a 16-bit dtype needs less");
}

const ForwardKernel<> kPlain{.name = "fa2_forward",
                             .on_cpu = cpu::launch_fa2_forward,
                             .on_cuda = cuda::launch_fa2_forward,
                             .bytes = cpu::fa2_forward_bytes,
                             .shared_bytes = cpu::fa2_shared_bytes,
                             .check = check_plain};

const ForwardKernel<> kTiled{.name = "fa2_tiled_forward",
                             .on_cpu = cpu::launch_fa2_tiled,
                             .on_cuda = cuda::launch_fa2_tiled,
                             .bytes = cpu::fa2_tiled_bytes,
                             .shared_bytes = cpu::fa2_tiled_shared_bytes,
                             .check = check_register_tiles};

const ForwardKernel<>& chosen(const torch::Tensor& q, const AttentionArguments& problem) {
    return register_tiles_pay(q, kTiled.shared_bytes(problem)) ? kTiled : kPlain;
}

}  // namespace

AttentionResult fa2_plain_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options) {
    return forward(kPlain, q, checked_arguments(q, k, v, options));
}

AttentionResult fa2_tiled_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options) {
    return forward(kTiled, q, checked_arguments(q, k, v, options));
}

AttentionResult fa2_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options) {
    const AttentionArguments problem = checked_arguments(q, k, v, options);
    return forward(chosen(q, problem), q, problem);
}

GlobalBytes fa2_plain_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options) {
    return kPlain.bytes(checked_arguments(q, k, v, options));
}

GlobalBytes fa2_tiled_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options) {
    return kTiled.bytes(checked_arguments(q, k, v, options));
}

GlobalBytes fa2_forward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                              const AttentionOptions& options) {
    const AttentionArguments problem = checked_arguments(q, k, v, options);
    return chosen(q, problem).bytes(problem);
}

namespace {

const RegisterRung registered(ForwardRung{
    .name = "fa2_forward",
    .rank = Rank::unmasked,
    .reason = "there is no mask, and no tile to cut",
    .objection = [](const torch::Tensor&, const torch::Tensor&, const torch::Tensor&, const AttentionOptions& options)
        -> std::string { return options.mask == Mask::none ? "" : "it knows no masks"; },
    .run = fa2_forward});

}  // namespace

TORCH_LIBRARY_FRAGMENT(flash_ladder, library) {
    register_operator(library, "fa2_forward", kAttentionSchema, attention_operator<fa2_forward>, attention_shapes);
}

}  // namespace ladder
