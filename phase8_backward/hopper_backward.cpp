#include "phase8_backward/hopper_backward.h"

#include <stdexcept>
#include <string>

#include "common/attention/addressable.h"
#include "common/attention/check.h"
#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "phase8_backward/backward_check.h"
#include "phase8_backward/hopper_arguments.h"

namespace ladder {

// hopper_backward.cuh and hopper_backward_wide.cuh, compiled once per machine.
namespace cpu {
void launch_hopper_backward(const HopperBackwardArguments&);
std::size_t hopper_backward_shared_bytes(const HopperBackwardArguments&);
int hopper_backward_tile(const HopperBackwardArguments&);
GlobalBytes hopper_backward_bytes(const HopperBackwardArguments&);
void launch_hopper_backward_wide(const HopperBackwardArguments&);
std::size_t hopper_backward_wide_shared_bytes(const HopperBackwardArguments&);
int hopper_backward_wide_tile(const HopperBackwardArguments&);
GlobalBytes hopper_backward_wide_bytes(const HopperBackwardArguments&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_hopper_backward(const HopperBackwardArguments&);
[[gnu::weak]] void launch_hopper_backward_wide(const HopperBackwardArguments&);
}  // namespace cuda

namespace {

constexpr const char* kName = "hopper_backward";
/// What a kernel's file offers.
struct HopperKernel {
    decltype(cpu::launch_hopper_backward)*on_cpu, *on_cuda;  // null where the program has no GPU side
    decltype(cpu::hopper_backward_shared_bytes)* shared_bytes;
    decltype(cpu::hopper_backward_tile)* tile;
    decltype(cpu::hopper_backward_bytes)* bytes;
};

HopperKernel kernel_for(const HopperBackwardArguments& a) {
    if (a.head_dim() <= 128)
        return {cpu::launch_hopper_backward, cuda::launch_hopper_backward, cpu::hopper_backward_shared_bytes,
                cpu::hopper_backward_tile, cpu::hopper_backward_bytes};
    return {cpu::launch_hopper_backward_wide, cuda::launch_hopper_backward_wide, cpu::hopper_backward_wide_shared_bytes,
            cpu::hopper_backward_wide_tile, cpu::hopper_backward_wide_bytes};
}

void check_gather(DqGather gather) {
    if (gather != DqGather::in_order && gather != DqGather::atomics)
        throw std::invalid_argument("gather: it is " + std::to_string(int(gather)) + "; " + kName +
                                    " has no second pass: in_order and atomics are accepted");
}

/// The problem in plain numbers, of tensors that the accelerator can address.
HopperBackwardArguments arguments_of(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const torch::Tensor& out, const torch::Tensor& lse,
                                     const AttentionOptions& options) {
    HopperBackwardArguments a;
    static_cast<AttentionArguments&>(a) = attention_arguments(q, k, v, out, lse, options);
    return a;
}

}  // namespace

void check_hopper_backward(const torch::Tensor& q) {
    if (q.scalar_type() == torch::kFloat32)
        throw std::invalid_argument(std::string(kName) +
                                    ": q is Float; accepts float16 and bfloat16, which tensor cores multiply. For "
                                    "float32 there is plain_backward");
    const simt::Device device = device_limits(q.device());
    if (!device.has_feature(simt::Feature::wgmma))
        throw std::runtime_error(simt::feature_complaint(device, simt::Feature::wgmma, kName) +
                                 ". On other devices mma_backward computes the same; the CPU machine imitates one of "
                                 "these with --profile h100");
}

AttentionGradients hopper_backward(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k,
                                   const torch::Tensor& v, const torch::Tensor& out, const torch::Tensor& lse,
                                   const AttentionOptions& options, const BackwardOptions& backward_options,
                                   const std::optional<torch::Tensor>& dlse) {
    check_gather(backward_options.gather);
    check_backward(dout, q, k, v, out, lse, options, {}, dlse);
    check_hopper_backward(q);
    const torch::Tensor Q = made_addressable(q), K = made_addressable(k), V = made_addressable(v),
                        dO = made_addressable(dout), O = made_addressable(out);
    HopperBackwardArguments a = arguments_of(Q, K, V, O, lse, options);
    a.scale = attention_arguments(q, k, v, out, lse, options).scale;  // of the head dimension that was given
    const HopperKernel kernel = kernel_for(a);
    check_shared_memory(kName, kernel.shared_bytes(a), q.device(), "a smaller head dimension needs less");

    const auto in_float32 = q.options().dtype(torch::kFloat32);
    const std::int64_t B_r = kernel.tile(a), tiles = (q.size(2) + B_r - 1) / B_r;
    AttentionGradients result{.dq = allocate(Q.sizes(), q.options()),
                              .dk = allocate(K.sizes(), k.options()),
                              .dv = allocate(V.sizes(), v.options())};
    const torch::Tensor dq_sum = allocate(Q.sizes(), in_float32);
    const torch::Tensor d = allocate({q.size(0), q.size(1), tiles * B_r}, in_float32);
    const torch::Tensor lse2 = allocate(d.sizes(), in_float32);
    torch::Tensor turns;
    if (backward_options.gather == DqGather::in_order) {
        turns = allocate({q.size(0), q.size(1), tiles}, q.options().dtype(torch::kInt32));
        a.turns = tensor_argument("turns", turns);
    }
    a.dout = tensor_argument("dO", dO);
    if (dlse) a.dlse = tensor_argument("dLSE", *dlse);
    a.d = tensor_argument("D", d);
    a.lse2 = tensor_argument("LSE as a power of 2", lse2);
    a.dq_sum = tensor_argument("dQ sum", dq_sum);
    a.dq = tensor_argument("dQ", result.dq);
    a.dk = tensor_argument("dK", result.dk);
    a.dv = tensor_argument("dV", result.dv);
    run_on(q.device(), kernel.on_cpu, kernel.on_cuda, a);
    check_written(kName, "dQ", result.dq);
    check_written(kName, "dK", result.dk);
    check_written(kName, "dV", result.dv);
    if (Q.size(3) != q.size(3))
        for (torch::Tensor* x : {&result.dq, &result.dk, &result.dv}) *x = x->narrow(3, 0, q.size(3)).contiguous();
    return result;
}

GlobalBytes hopper_backward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options, const BackwardOptions& backward_options,
                                  bool has_dlse) {
    check_gather(backward_options.gather);
    check_backward(q, k, v, options, {});
    HopperBackwardArguments a = arguments_of(q, k, v, q, {}, options);
    if (has_dlse) a.dlse.rank = 3;
    return kernel_for(a).bytes(a);
}

}  // namespace ladder
