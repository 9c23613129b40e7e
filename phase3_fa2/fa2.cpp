#include "phase3_fa2/fa2.h"

#include "common/attention/allocate.h"
#include "common/attention/check.h"
#include "common/attention/check_written.h"
#include "common/attention/machine.h"
#include "common/attention/registration.h"

namespace ladder {

// fa2.cuh, compiled once per machine.
namespace cpu {
void launch_fa2_forward(const AttentionArguments&);
std::size_t fa2_shared_bytes(const AttentionArguments&);
GlobalBytes fa2_forward_bytes(const AttentionArguments&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_fa2_forward(const AttentionArguments&);
}

AttentionResult fa2_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options) {
    check_attention(q, k, v, options);
    check_shared_memory("fa2_forward", cpu::fa2_shared_bytes(attention_arguments(q, k, v, q, {}, options)), q.device(),
                        "a smaller head dimension or a 16-bit dtype needs less");
    AttentionResult result{.out = allocate(q.sizes(), q.options()),
                           .lse = allocate(q.sizes().slice(0, 3), q.options().dtype(torch::kFloat32))};
    run_on(q.device(), cpu::launch_fa2_forward, cuda::launch_fa2_forward,
           attention_arguments(q, k, v, result.out, result.lse, options));
    check_written("fa2_forward", result);
    return result;
}

GlobalBytes fa2_forward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                              const AttentionOptions& options) {
    check_attention(q, k, v, options);
    return cpu::fa2_forward_bytes(attention_arguments(q, k, v, q, {}, options));
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
