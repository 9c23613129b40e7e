#include "phase3_fa2/fa2.h"

#include "common/attention/check.h"
#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "common/attention/registration.h"
#include "common/attention/wide_tiles.h"

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

using Launch = void (*)(const AttentionArguments&);

/// The checks that every kernel of this phase needs, and the problem in plain numbers, without results as yet.
AttentionArguments checked(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                           const AttentionOptions& options) {
    check_attention(q, k, v, options);
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
    return wide_tiles_pay(q, cpu::fa2_tiled_shared_bytes(problem));
}

}  // namespace

AttentionResult fa2_plain_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options) {
    check_shared_memory("fa2_forward", cpu::fa2_shared_bytes(checked(q, k, v, options)), q.device(),
                        "a smaller head dimension or a 16-bit dtype needs less");
    return run("fa2_forward", cpu::launch_fa2_forward, cuda::launch_fa2_forward, q, k, v, options);
}

AttentionResult fa2_tiled_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options) {
    check_wide_tiles("fa2_tiled_forward", q, cpu::fa2_tiled_shared_bytes(checked(q, k, v, options)));
    return run("fa2_tiled_forward", cpu::launch_fa2_tiled, cuda::launch_fa2_tiled, q, k, v, options);
}

AttentionResult fa2_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options) {
    return tiled_pays(q, checked(q, k, v, options)) ? fa2_tiled_forward(q, k, v, options)
                                                    : fa2_plain_forward(q, k, v, options);
}

GlobalBytes fa2_plain_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options) {
    return cpu::fa2_forward_bytes(checked(q, k, v, options));
}

GlobalBytes fa2_tiled_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options) {
    return cpu::fa2_tiled_bytes(checked(q, k, v, options));
}

GlobalBytes fa2_forward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                              const AttentionOptions& options) {
    const AttentionArguments problem = checked(q, k, v, options);
    return tiled_pays(q, problem) ? cpu::fa2_tiled_bytes(problem) : cpu::fa2_forward_bytes(problem);
}

TORCH_LIBRARY_FRAGMENT(flash_ladder, library) {
    library.def(
        "fa2_forward(Tensor q, Tensor k, Tensor v, *, float? scale=None) -> (Tensor out, Tensor lse)",
        [](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, c10::optional<double> scale) {
            const AttentionResult r = fa2_forward(q, k, v, {.scale = from_schema(scale)});
            return std::tuple(r.out, r.lse);
        });
}

}  // namespace ladder
