#include "phase4_causal/causal.h"

#include <initializer_list>

#include "common/attention/allocate.h"
#include "common/attention/check.h"
#include "common/attention/check_written.h"
#include "common/attention/machine.h"
#include "common/attention/registration.h"

namespace ladder {

// causal.cuh, compiled once per machine.
namespace cpu {
void launch_causal_forward(const AttentionArguments&);
GlobalBytes causal_forward_bytes(const AttentionArguments&);
std::size_t causal_forward_shared_bytes(const AttentionArguments&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_causal_forward(const AttentionArguments&);
}

namespace {

constexpr std::initializer_list<Mask> kMasks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};

}  // namespace

AttentionResult causal_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const AttentionOptions& options) {
    check_attention(q, k, v, options, kMasks);
    check_shared_memory("causal_forward",
                        cpu::causal_forward_shared_bytes(attention_arguments(q, k, v, q, {}, options)), q.device(),
                        "a smaller head dimension or a 16-bit dtype needs less");
    AttentionResult result{.out = allocate(q.sizes(), q.options()),
                           .lse = allocate(q.sizes().slice(0, 3), q.options().dtype(torch::kFloat32))};
    run_on(q.device(), cpu::launch_causal_forward, cuda::launch_causal_forward,
           attention_arguments(q, k, v, result.out, result.lse, options));
    check_written("causal_forward", result);
    return result;
}

GlobalBytes causal_forward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                 const AttentionOptions& options) {
    check_attention(q, k, v, options, kMasks);
    return cpu::causal_forward_bytes(attention_arguments(q, k, v, q, {}, options));
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
