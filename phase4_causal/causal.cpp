#include "phase4_causal/causal.h"

#include <initializer_list>

#include "common/attention/check.h"
#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "common/attention/registration.h"
#include "common/attention/wide_tiles.h"

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

using Launch = void (*)(const AttentionArguments&);

/// The checks that every kernel of this phase needs, and the problem in plain numbers, without results as yet.
AttentionArguments checked(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                           const AttentionOptions& options) {
    check_attention(q, k, v, options, kMasks);
    return attention_arguments(q, k, v, q, {}, options);
}

AttentionResult run(const char* kernel, Launch on_cpu, Launch on_cuda, const torch::Tensor& q, const torch::Tensor& k,
                    const torch::Tensor& v, const AttentionOptions& options) {
    AttentionResult result{.out = allocate(q.sizes(), q.options()),
                           .lse = allocate(q.sizes().slice(0, 3), q.options().dtype(torch::kFloat32))};
    run_on(q.device(), on_cpu, on_cuda, attention_arguments(q, k, v, result.out, result.lse, options));
    check_written(kernel, result);
    return result;
}

bool tiled_pays(const torch::Tensor& q, const AttentionArguments& problem) {
    return wide_tiles_pay(q, cpu::causal_tiled_shared_bytes(problem));
}

}  // namespace

AttentionResult causal_plain_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options) {
    check_shared_memory("causal_forward", cpu::causal_forward_shared_bytes(checked(q, k, v, options)), q.device(),
                        "a smaller head dimension or a 16-bit dtype needs less");
    return run("causal_forward", cpu::launch_causal_forward, cuda::launch_causal_forward, q, k, v, options);
}

AttentionResult causal_tiled_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options) {
    check_wide_tiles("causal_tiled_forward", q, cpu::causal_tiled_shared_bytes(checked(q, k, v, options)));
    return run("causal_tiled_forward", cpu::launch_causal_tiled, cuda::launch_causal_tiled, q, k, v, options);
}

AttentionResult causal_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const AttentionOptions& options) {
    return tiled_pays(q, checked(q, k, v, options)) ? causal_tiled_forward(q, k, v, options)
                                                    : causal_plain_forward(q, k, v, options);
}

GlobalBytes causal_plain_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const AttentionOptions& options) {
    return cpu::causal_forward_bytes(checked(q, k, v, options));
}

GlobalBytes causal_tiled_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const AttentionOptions& options) {
    return cpu::causal_tiled_bytes(checked(q, k, v, options));
}

GlobalBytes causal_forward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                 const AttentionOptions& options) {
    const AttentionArguments problem = checked(q, k, v, options);
    return tiled_pays(q, problem) ? cpu::causal_tiled_bytes(problem) : cpu::causal_forward_bytes(problem);
}

TORCH_LIBRARY_FRAGMENT(flash_ladder, library) {
    library.def(
        "causal_forward(Tensor q, Tensor k, Tensor v, *, str mask=\"causal_bottom_right\", float? scale=None) -> "
        "(Tensor out, Tensor lse)",
        [](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, const std::string& mask,
           c10::optional<double> scale) {
            const AttentionResult r =
                causal_forward(q, k, v, {.scale = from_schema(scale), .mask = mask_named(mask, kMasks)});
            return std::tuple(r.out, r.lse);
        });
}

}  // namespace ladder
