#include "phase2_fa1/fa1.h"

#include <array>

#include "common/attention/check.h"
#include "common/attention/forward.h"
#include "common/attention/outputs.h"
#include "common/attention/register_tiles.h"
#include "common/attention/registration.h"
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

void check_plain(const std::string& name, const torch::Tensor& q, std::size_t shared_bytes) {
    check_shared_memory(name, shared_bytes, q.device(),
                        "these are the smallest tiles; use a 16-bit dtype or a smaller head dimension");
}

const ForwardKernel<Fa1Arguments> kPlain{
    .name = "fa1_forward",
    .on_cpu = cpu::launch_fa1_forward,
    .on_cuda = cuda::launch_fa1_forward,
    .bytes = cpu::fa1_forward_bytes,
    .shared_bytes = [](const Fa1Arguments& problem) { return problem.tiles.shared_bytes; },
    .check = check_plain};

const ForwardKernel<Fa1Arguments> kTiled{
    .name = "fa1_tiled_forward",
    .on_cpu = cpu::launch_fa1_tiled,
    .on_cuda = cuda::launch_fa1_tiled,
    .bytes = [](const Fa1Arguments& problem) { return cpu::fa1_tiled_bytes(problem); },
    .shared_bytes = [](const Fa1Arguments& problem) { return cpu::fa1_tiled_shared_bytes(problem); },
    .check = [](const std::string& name, const torch::Tensor& q,
                std::size_t shared_bytes) { check_register_tiles(name, q, shared_bytes, kWidestFa1Tile); }};

Fa1Arguments fa1_arguments(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                           const AttentionOptions& options) {
    const AttentionArguments problem = checked_arguments(q, k, v, options);
    return {problem, {}, {}, {}, fa1_tiles(device_limits(q.device()), problem.q.type, problem.head_dim())};
}

/// Few blocks are no reason against large tiles here: FlashAttention-1 has one for a head anyway.
const ForwardKernel<Fa1Arguments>& chosen(const torch::Tensor& q, const Fa1Arguments& problem) {
    const bool tiled = q.size(3) <= kWidestFa1Tile && register_tiles_pay(q, kTiled.shared_bytes(problem));
    return tiled ? kTiled : kPlain;
}

AttentionResult run(const ForwardKernel<Fa1Arguments>& kernel, const torch::Tensor& q, const Fa1Arguments& problem) {
    return forward(kernel, q, problem, [&](const AttentionResult& result, Fa1Arguments& arguments) {
        const auto float32 = q.options().dtype(torch::kFloat32);
        const auto rows = q.sizes().slice(0, 3);
        // Rounding O to 16 bits after each step would add up; it waits in float32 then.
        const bool out_is_float32 = q.scalar_type() == torch::kFloat32;
        const torch::Tensor running_out = out_is_float32 ? result.out : allocate(q.sizes(), float32);
        const torch::Tensor l = allocate(rows, float32), m = allocate(rows, float32);
        arguments.running_out = tensor_argument(out_is_float32 ? "O" : "O (float32)", running_out);
        arguments.l = tensor_argument("l", l);
        arguments.m = tensor_argument("m", m);
        return std::array{running_out, l, m};
    });
}

}  // namespace

AttentionResult fa1_plain_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options) {
    return run(kPlain, q, fa1_arguments(q, k, v, options));
}

AttentionResult fa1_tiled_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options) {
    return run(kTiled, q, fa1_arguments(q, k, v, options));
}

AttentionResult fa1_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options) {
    const Fa1Arguments problem = fa1_arguments(q, k, v, options);
    return run(chosen(q, problem), q, problem);
}

GlobalBytes fa1_plain_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options) {
    return kPlain.bytes(fa1_arguments(q, k, v, options));
}

GlobalBytes fa1_tiled_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options) {
    return kTiled.bytes(fa1_arguments(q, k, v, options));
}

GlobalBytes fa1_forward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                              const AttentionOptions& options) {
    const Fa1Arguments problem = fa1_arguments(q, k, v, options);
    return chosen(q, problem).bytes(problem);
}

TORCH_LIBRARY_FRAGMENT(flash_ladder, library) {
    register_operator(library, "fa1_forward", kAttentionSchema, attention_operator<fa1_forward>, attention_shapes);
}

}  // namespace ladder
