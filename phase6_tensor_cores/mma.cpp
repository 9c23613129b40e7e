#include "phase6_tensor_cores/mma.h"

#include <initializer_list>
#include <stdexcept>

#include "common/attention/check.h"
#include "common/attention/forward.h"
#include "common/attention/registration.h"
#include "common/attention/rungs.h"

namespace ladder {

// mma.cuh and mma_pipelined.cuh, compiled once per machine.
namespace cpu {
void launch_mma(const AttentionArguments&);
GlobalBytes mma_bytes(const AttentionArguments&);
std::size_t mma_shared_bytes(const AttentionArguments&);
void launch_mma_pipelined(const AttentionArguments&);
GlobalBytes mma_pipelined_bytes(const AttentionArguments&);
std::size_t mma_pipelined_shared_bytes(const AttentionArguments&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_mma(const AttentionArguments&);
[[gnu::weak]] void launch_mma_pipelined(const AttentionArguments&);
}  // namespace cuda

namespace {

constexpr std::initializer_list<Mask> kMasks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};

void check_mma(const std::string& name, const torch::Tensor& q, std::size_t shared_bytes) {
    if (q.scalar_type() == torch::kFloat32)
        throw std::invalid_argument(name +
                                    ": q is Float; accepts float16 and bfloat16, which tensor cores multiply. For "
                                    "float32 there are phases 3 and 4: fa2_forward and causal_forward");
    const simt::Device device = device_limits(q.device());
    simt::require_feature(device, simt::Feature::mma, name);
    simt::require_feature(device, simt::Feature::cp_async, name);
    check_shared_memory(name, shared_bytes, q.device(), "a smaller head dimension needs less");
}

const ForwardKernel<> kPlain{.name = "mma_plain_forward",
                             .on_cpu = cpu::launch_mma,
                             .on_cuda = cuda::launch_mma,
                             .bytes = cpu::mma_bytes,
                             .shared_bytes = cpu::mma_shared_bytes,
                             .check = check_mma};

const ForwardKernel<> kPipelined{.name = "mma_forward",
                                 .on_cpu = cpu::launch_mma_pipelined,
                                 .on_cuda = cuda::launch_mma_pipelined,
                                 .bytes = cpu::mma_pipelined_bytes,
                                 .shared_bytes = cpu::mma_pipelined_shared_bytes,
                                 .check = check_mma};

}  // namespace

AttentionResult mma_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options) {
    return forward(kPipelined, q, checked_arguments(q, k, v, options, kMasks));
}

AttentionResult mma_plain_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options) {
    return forward(kPlain, q, checked_arguments(q, k, v, options, kMasks));
}

GlobalBytes mma_forward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                              const AttentionOptions& options) {
    return kPipelined.bytes(checked_arguments(q, k, v, options, kMasks));
}

GlobalBytes mma_plain_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options) {
    return kPlain.bytes(checked_arguments(q, k, v, options, kMasks));
}

namespace {

OutAndLse mma_operator(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, const std::string& mask,
                       c10::optional<double> scale) {
    const AttentionResult result =
        mma_forward(q, k, v, {.scale = from_schema(scale), .mask = mask_named(mask, kMasks)});
    return {result.out, result.lse};
}

OutAndLse mma_shapes(const torch::Tensor& q, const torch::Tensor&, const torch::Tensor&, const std::string& mask,
                     c10::optional<double>) {
    mask_named(mask, kMasks);
    return shapes_for(q);
}

const RegisterRung registered(ForwardRung{
    .name = "mma_forward",
    .rank = Rank::tensor_cores,
    .reason = "tensor cores multiply its 16-bit tiles",
    .objection = [](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const AttentionOptions& options) -> std::string {
        if (q.element_size() > 2) return "tensor cores take 16 bits, and q has 32";
        const std::size_t bytes = kPipelined.shared_bytes(attention_arguments(q, k, v, q, {}, options));
        return objection_of([&] { check_mma("mma_forward", q, bytes); });
    },
    .run = mma_forward});

}  // namespace

TORCH_LIBRARY_FRAGMENT(flash_ladder, library) {
    register_operator(library, "mma_forward",
                      "(Tensor q, Tensor k, Tensor v, *, str mask=\"none\", float? scale=None) -> "
                      "(Tensor out, Tensor lse)",
                      mma_operator, mma_shapes);
}

}  // namespace ladder
