#include "phase0_softmax/online_attention.h"

#include "common/attention/forward.h"
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

namespace {

const ForwardKernel<> kKernel{.name = "online_attention",
                              .on_cpu = cpu::launch_online_attention,
                              .on_cuda = cuda::launch_online_attention,
                              .bytes = cpu::online_attention_bytes};

}  // namespace

AttentionResult online_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                 const AttentionOptions& options) {
    return forward(kKernel, q, checked_arguments(q, k, v, options));
}

GlobalBytes online_attention_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const AttentionOptions& options) {
    return kKernel.bytes(checked_arguments(q, k, v, options));
}

TORCH_LIBRARY_FRAGMENT(flash_ladder, library) {
    register_operator(library, "online_attention", kAttentionSchema, attention_operator<online_attention>,
                      attention_shapes);
}

}  // namespace ladder
