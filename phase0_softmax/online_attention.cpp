#include "phase0_softmax/online_attention.h"

#include "common/attention/check.h"
#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "common/attention/registration.h"

namespace ladder {

// online_attention.cuh, compiled once per machine.
namespace cpu {
void launch_online_attention(const AttentionArguments&);
GlobalBytes online_attention_bytes(const AttentionArguments&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_online_attention(const AttentionArguments&);
}

AttentionResult online_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                 const AttentionOptions& options) {
    check_attention(q, k, v, options);
    AttentionResult result{.out = allocate(q.sizes(), q.options()),
                           .lse = allocate(q.sizes().slice(0, 3), q.options().dtype(torch::kFloat32))};
    run_on(q.device(), cpu::launch_online_attention, cuda::launch_online_attention,
           attention_arguments(q, k, v, result.out, result.lse, options));
    check_written("online_attention", result);
    return result;
}

GlobalBytes online_attention_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const AttentionOptions& options) {
    check_attention(q, k, v, options);
    return cpu::online_attention_bytes(attention_arguments(q, k, v, q, {}, options));
}

TORCH_LIBRARY_FRAGMENT(flash_ladder, library) {
    library.def(
        "online_attention(Tensor q, Tensor k, Tensor v, *, float? scale=None) -> (Tensor out, Tensor lse)",
        [](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, c10::optional<double> scale) {
            const AttentionResult r = online_attention(q, k, v, {.scale = from_schema(scale)});
            return std::tuple(r.out, r.lse);
        });
}

}  // namespace ladder
