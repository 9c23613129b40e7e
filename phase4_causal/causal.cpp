#include "phase4_causal/causal.h"

#include <initializer_list>

#include "common/attention/check.h"
#include "common/attention/forward.h"
#include "common/attention/register_tiles.h"
#include "common/attention/registration.h"
#include "common/attention/rungs.h"

namespace ladder {

// causal.cuh and causal_tiled.cuh, compiled once per machine.
namespace cpu {
void launch_causal_forward(const AttentionArguments&);
GlobalBytes causal_forward_bytes(const AttentionArguments&);
std::size_t causal_forward_shared_bytes(const AttentionArguments&);
void launch_causal_tiled(const AttentionArguments&);
GlobalBytes causal_tiled_bytes(const AttentionArguments&);
std::size_t causal_tiled_shared_bytes(const AttentionArguments&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_causal_forward(const AttentionArguments&);
[[gnu::weak]] void launch_causal_tiled(const AttentionArguments&);
}  // namespace cuda

namespace {

constexpr std::initializer_list<Mask> kMasks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};

void check_plain(const std::string& name, const torch::Tensor& q, std::size_t shared_bytes) {
    check_shared_memory(name, shared_bytes, q.device(), "a smaller head dimension or a 16-bit dtype needs less");
}

const ForwardKernel<> kPlain{.name = "causal_forward",
                             .on_cpu = cpu::launch_causal_forward,
                             .on_cuda = cuda::launch_causal_forward,
                             .bytes = cpu::causal_forward_bytes,
                             .shared_bytes = cpu::causal_forward_shared_bytes,
                             .check = check_plain};

const ForwardKernel<> kTiled{.name = "causal_tiled_forward",
                             .on_cpu = cpu::launch_causal_tiled,
                             .on_cuda = cuda::launch_causal_tiled,
                             .bytes = cpu::causal_tiled_bytes,
                             .shared_bytes = cpu::causal_tiled_shared_bytes,
                             .check = check_register_tiles};

const ForwardKernel<>& chosen(const torch::Tensor& q, const AttentionArguments& problem) {
    return register_tiles_pay(q, kTiled.shared_bytes(problem)) ? kTiled : kPlain;
}

}  // namespace

AttentionResult causal_plain_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options) {
    return forward(kPlain, q, checked_arguments(q, k, v, options, kMasks));
}

AttentionResult causal_tiled_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options) {
    return forward(kTiled, q, checked_arguments(q, k, v, options, kMasks));
}

AttentionResult causal_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const AttentionOptions& options) {
    const AttentionArguments problem = checked_arguments(q, k, v, options, kMasks);
    return forward(chosen(q, problem), q, problem);
}

GlobalBytes causal_plain_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const AttentionOptions& options) {
    return kPlain.bytes(checked_arguments(q, k, v, options, kMasks));
}

GlobalBytes causal_tiled_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const AttentionOptions& options) {
    return kTiled.bytes(checked_arguments(q, k, v, options, kMasks));
}

GlobalBytes causal_forward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                 const AttentionOptions& options) {
    const AttentionArguments problem = checked_arguments(q, k, v, options, kMasks);
    return chosen(q, problem).bytes(problem);
}

namespace {

OutAndLse causal_operator(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                          const std::string& mask, c10::optional<double> scale) {
    const AttentionResult result =
        causal_forward(q, k, v, {.scale = from_schema(scale), .mask = mask_named(mask, kMasks)});
    return {result.out, result.lse};
}

OutAndLse causal_shapes(const torch::Tensor& q, const torch::Tensor&, const torch::Tensor&, const std::string& mask,
                        c10::optional<double>) {
    mask_named(mask, kMasks);
    return shapes_for(q);
}

const RegisterRung registered(ForwardRung{
    .name = "causal_forward",
    .rank = Rank::registers,
    .reason = "it takes every dtype, mask and shape, and skips the tiles that nobody sees",
    .objection = [](const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                    const AttentionOptions&) -> std::string { return ""; },
    .run = causal_forward});

}  // namespace

TORCH_LIBRARY_FRAGMENT(flash_ladder, library) {
    register_operator(library, "causal_forward",
                      "(Tensor q, Tensor k, Tensor v, *, str mask=\"causal_bottom_right\", float? scale=None) -> "
                      "(Tensor out, Tensor lse)",
                      causal_operator, causal_shapes);
}

}  // namespace ladder
