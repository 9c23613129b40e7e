#include "phase2_fa1/fa1.h"

#include "common/attention/allocate.h"
#include "common/attention/check.h"
#include "common/attention/check_written.h"
#include "common/attention/machine.h"
#include "common/attention/registration.h"
#include "phase2_fa1/fa1_arguments.h"

namespace ladder {

// fa1.cuh, compiled once per machine.
namespace cpu {
void launch_fa1_forward(const Fa1Arguments&);
GlobalBytes fa1_forward_bytes(const Fa1Arguments&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_fa1_forward(const Fa1Arguments&);
}

namespace {

Fa1Tiles tiles_for(const torch::Tensor& q) {
    return fa1_tiles(device_limits(q.device()), tensor_argument("Q", q).type, q.size(3));
}

}  // namespace

AttentionResult fa1_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options) {
    check_attention(q, k, v, options);
    const Fa1Tiles tiles = tiles_for(q);
    check_shared_memory("fa1_forward", tiles.shared_bytes, q.device(),
                        "these are the smallest tiles; use a 16-bit dtype or a smaller head dimension");

    const auto float32 = q.options().dtype(torch::kFloat32);
    const auto rows = q.sizes().slice(0, 3);
    const AttentionResult result{.out = allocate(q.sizes(), q.options()), .lse = allocate(rows, float32)};
    // Rounding O to 16 bits after each step would add up; it waits in float32 then.
    const bool out_is_float32 = q.scalar_type() == torch::kFloat32;
    const torch::Tensor running_out = out_is_float32 ? result.out : allocate(q.sizes(), float32);
    const torch::Tensor l = allocate(rows, float32), m = allocate(rows, float32);
    run_on(q.device(), cpu::launch_fa1_forward, cuda::launch_fa1_forward,
           Fa1Arguments{attention_arguments(q, k, v, result.out, result.lse, options),
                        tensor_argument(out_is_float32 ? "O" : "O (float32)", running_out), tensor_argument("l", l),
                        tensor_argument("m", m), tiles});
    check_written("fa1_forward", result);
    return result;
}

GlobalBytes fa1_forward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                              const AttentionOptions& options) {
    check_attention(q, k, v, options);
    return cpu::fa1_forward_bytes(Fa1Arguments{attention_arguments(q, k, v, q, {}, options), {}, {}, {}, tiles_for(q)});
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
