#include "phase2_fa1/fa1.h"

#include "common/attention/allocate.h"
#include "common/attention/check.h"
#include "common/attention/check_written.h"
#include "common/attention/machine.h"
#include "common/attention/registration.h"
#include "common/attention/wide_tiles.h"
#include "phase2_fa1/fa1_arguments.h"

namespace ladder {

// fa1.cuh and fa1_tiled.cuh, compiled once per machine.
namespace cpu {
void launch_fa1_forward(const Fa1Arguments&);
GlobalBytes fa1_forward_bytes(const Fa1Arguments&);
void launch_fa1_tiled(const Fa1Arguments&);
std::size_t fa1_tiled_shared_bytes(const AttentionArguments&);
GlobalBytes fa1_tiled_bytes(const AttentionArguments&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_fa1_forward(const Fa1Arguments&);
[[gnu::weak]] void launch_fa1_tiled(const Fa1Arguments&);
}  // namespace cuda

namespace {

Fa1Tiles tiles_for(const torch::Tensor& q) {
    return fa1_tiles(device_limits(q.device()), tensor_argument("Q", q).type, q.size(3));
}

/// The checks that both kernels need, and the problem in plain numbers, without results as yet.
AttentionArguments checked(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                           const AttentionOptions& options) {
    check_attention(q, k, v, options);
    return attention_arguments(q, k, v, q, {}, options);
}

bool can_be_tiled(const torch::Tensor& q, const AttentionArguments& problem) {
    const simt::Device device = device_limits(q.device());
    return q.scalar_type() == torch::kFloat32 && q.size(3) <= kWidestWideHeadDim &&
           device.has_compute_capability(8, 0) &&
           cpu::fa1_tiled_shared_bytes(problem) <= std::size_t(device.shared_bytes_per_block_optin);
}

AttentionResult run(const char* kernel, void (*on_cpu)(const Fa1Arguments&), void (*on_cuda)(const Fa1Arguments&),
                    const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const AttentionOptions& options) {
    const auto float32 = q.options().dtype(torch::kFloat32);
    const auto rows = q.sizes().slice(0, 3);
    const AttentionResult result{.out = allocate(q.sizes(), q.options()), .lse = allocate(rows, float32)};
    // Rounding O to 16 bits after each step would add up; it waits in float32 then.
    const bool out_is_float32 = q.scalar_type() == torch::kFloat32;
    const torch::Tensor running_out = out_is_float32 ? result.out : allocate(q.sizes(), float32);
    const torch::Tensor l = allocate(rows, float32), m = allocate(rows, float32);
    run_on(q.device(), on_cpu, on_cuda,
           Fa1Arguments{attention_arguments(q, k, v, result.out, result.lse, options),
                        tensor_argument(out_is_float32 ? "O" : "O (float32)", running_out), tensor_argument("l", l),
                        tensor_argument("m", m), tiles_for(q)});
    check_written(kernel, result);
    return result;
}

}  // namespace

AttentionResult fa1_plain_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options) {
    check_attention(q, k, v, options);
    check_shared_memory("fa1_forward", tiles_for(q).shared_bytes, q.device(),
                        "these are the smallest tiles; use a 16-bit dtype or a smaller head dimension");
    return run("fa1_forward", cpu::launch_fa1_forward, cuda::launch_fa1_forward, q, k, v, options);
}

AttentionResult fa1_tiled_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options) {
    check_wide_tiles("fa1_tiled_forward", q, cpu::fa1_tiled_shared_bytes(checked(q, k, v, options)),
                     kWidestWideHeadDim);
    return run("fa1_tiled_forward", cpu::launch_fa1_tiled, cuda::launch_fa1_tiled, q, k, v, options);
}

AttentionResult fa1_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options) {
    return can_be_tiled(q, checked(q, k, v, options)) ? fa1_tiled_forward(q, k, v, options)
                                                      : fa1_plain_forward(q, k, v, options);
}

GlobalBytes fa1_plain_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options) {
    return cpu::fa1_forward_bytes(Fa1Arguments{checked(q, k, v, options), {}, {}, {}, tiles_for(q)});
}

GlobalBytes fa1_tiled_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options) {
    return cpu::fa1_tiled_bytes(checked(q, k, v, options));
}

GlobalBytes fa1_forward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                              const AttentionOptions& options) {
    return can_be_tiled(q, checked(q, k, v, options)) ? fa1_tiled_bytes(q, k, v, options)
                                                      : fa1_plain_bytes(q, k, v, options);
}

TORCH_LIBRARY_FRAGMENT(flash_ladder, library) {
    library.def(
        "fa1_forward(Tensor q, Tensor k, Tensor v, *, float? scale=None) -> (Tensor out, Tensor lse)",
        [](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, c10::optional<double> scale) {
            const AttentionResult r = fa1_forward(q, k, v, {.scale = from_schema(scale)});
            return std::tuple(r.out, r.lse);
        });
}

}  // namespace ladder
