#include "phase8_backward/mma_backward.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "common/attention/check.h"
#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "phase8_backward/backward_arguments.h"
#include "phase8_backward/backward_check.h"

namespace ladder {

// mma_dkdv.cuh, mma_dq.cuh and mma_rows.cuh, compiled once per machine.
namespace cpu {
void launch_mma_delta(const BackwardArguments&);
void launch_mma_dkdv(const BackwardArguments&);
void launch_mma_dq(const BackwardArguments&);
void launch_mma_round(const BackwardArguments&);
std::size_t mma_dkdv_shared_bytes(const BackwardArguments&);
std::size_t mma_dq_shared_bytes(const BackwardArguments&);
DqSumShape mma_dq_sum_shape(const BackwardArguments&);
GlobalBytes mma_delta_bytes(const BackwardArguments&);
GlobalBytes mma_dkdv_bytes(const BackwardArguments&);
GlobalBytes mma_dq_bytes(const BackwardArguments&);
GlobalBytes mma_round_bytes(const BackwardArguments&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_mma_delta(const BackwardArguments&);
[[gnu::weak]] void launch_mma_dkdv(const BackwardArguments&);
[[gnu::weak]] void launch_mma_dq(const BackwardArguments&);
[[gnu::weak]] void launch_mma_round(const BackwardArguments&);
}  // namespace cuda

namespace {

constexpr const char* kName = "mma_backward";

}  // namespace

void check_mma_backward(const torch::Tensor& q) {
    if (q.scalar_type() == torch::kFloat32)
        throw std::invalid_argument(std::string(kName) +
                                    ": q is Float; accepts float16 and bfloat16, which tensor cores multiply. For "
                                    "float32 there is plain_backward");
    const simt::Device device = device_limits(q.device());
    simt::require_feature(device, simt::Feature::mma, kName);
    simt::require_feature(device, simt::Feature::cp_async, kName);
}

AttentionGradients mma_backward(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v, const torch::Tensor& out, const torch::Tensor& lse,
                                const AttentionOptions& options, const BackwardOptions& backward_options,
                                const std::optional<torch::Tensor>& dlse) {
    check_backward(dout, q, k, v, out, lse, options, backward_options, dlse);
    check_mma_backward(q);
    const bool adds = backward_options.gather == DqGather::atomics;
    const auto in_float32 = q.options().dtype(torch::kFloat32);
    BackwardArguments a(attention_arguments(q, k, v, out, lse, options));
    check_shared_memory(kName, std::max(cpu::mma_dkdv_shared_bytes(a), cpu::mma_dq_shared_bytes(a)), q.device(),
                        "a smaller head dimension needs less");

    const AttentionGradients result{.dq = allocate(q.sizes(), q.options()),
                                    .dk = allocate(k.sizes(), k.options()),
                                    .dv = allocate(v.sizes(), v.options())};
    const torch::Tensor d = allocate(q.sizes().slice(0, 3), in_float32);
    a.dout = tensor_argument("dO", dout);
    if (dlse) a.dlse = tensor_argument("dLSE", *dlse);
    a.d = tensor_argument("D", d);
    a.dq = tensor_argument("dQ", result.dq);
    a.dk = tensor_argument("dK", result.dk);
    a.dv = tensor_argument("dV", result.dv);
    run_on(q.device(), cpu::launch_mma_delta, cuda::launch_mma_delta, a);

    torch::Tensor dq_sum;
    if (adds) {
        const DqSumShape shape = cpu::mma_dq_sum_shape(a);
        dq_sum = at::zeros({q.size(0), q.size(1), shape.tiles, shape.elements}, in_float32);
        a.dq_sum = tensor_argument("dQ sum", dq_sum);
    }
    run_on(q.device(), cpu::launch_mma_dkdv, cuda::launch_mma_dkdv, a);
    if (adds)
        run_on(q.device(), cpu::launch_mma_round, cuda::launch_mma_round, a);
    else
        run_on(q.device(), cpu::launch_mma_dq, cuda::launch_mma_dq, a);
    check_written(kName, "dQ", result.dq);
    check_written(kName, "dK", result.dk);
    check_written(kName, "dV", result.dv);
    return result;
}

GlobalBytes mma_backward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const AttentionOptions& options, const BackwardOptions& backward_options,
                               bool has_dlse) {
    check_backward(q, k, v, options, backward_options);
    check_mma_backward(q);
    BackwardArguments a(attention_arguments(q, k, v, q, {}, options));
    if (has_dlse) a.dlse.rank = 3;
    const GlobalBytes delta = cpu::mma_delta_bytes(a);
    if (backward_options.gather == DqGather::second_pass)
        return bytes_together({delta, cpu::mma_dkdv_bytes(a), cpu::mma_dq_bytes(a)});
    a.dq_sum.rank = 4;
    return bytes_together({delta, cpu::mma_dkdv_bytes(a), cpu::mma_round_bytes(a)});
}

}  // namespace ladder
