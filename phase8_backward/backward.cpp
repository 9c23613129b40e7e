#include "phase8_backward/backward.h"

#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "common/attention/check.h"
#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "common/attention/register_tiles.h"
#include "common/attention/registration.h"
#include "phase8_backward/backward_arguments.h"
#include "phase8_backward/backward_check.h"

namespace ladder {

// delta.cuh, dkdv.cuh, dkdv_tiled.cuh and dq.cuh, compiled once per machine.
namespace cpu {
void launch_backward_delta(const BackwardArguments&);
void launch_backward_dkdv(const BackwardArguments&);
void launch_backward_dkdv_tiled(const BackwardArguments&);
void launch_backward_dq(const BackwardArguments&);
void launch_backward_round(const BackwardArguments&);
std::size_t backward_shared_bytes(const BackwardArguments&);
std::size_t backward_dkdv_tiled_shared_bytes(const BackwardArguments&);
GlobalBytes backward_delta_bytes(const BackwardArguments&);
GlobalBytes backward_dkdv_bytes(const BackwardArguments&);
GlobalBytes backward_dkdv_tiled_bytes(const BackwardArguments&);
GlobalBytes backward_dq_bytes(const BackwardArguments&);
GlobalBytes backward_round_bytes(const BackwardArguments&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_backward_delta(const BackwardArguments&);
[[gnu::weak]] void launch_backward_dkdv(const BackwardArguments&);
[[gnu::weak]] void launch_backward_dkdv_tiled(const BackwardArguments&);
[[gnu::weak]] void launch_backward_dq(const BackwardArguments&);
[[gnu::weak]] void launch_backward_round(const BackwardArguments&);
}  // namespace cuda

namespace {

/// A kernel of dK and dV, which adds to dQ where it is asked to.
struct DkdvKernel {
    const char* entry;  ///< the name of the entry around it
    void (*on_cpu)(const BackwardArguments&);
    void (*on_cuda)(const BackwardArguments&);
    std::size_t (*shared_bytes)(const BackwardArguments&);
    GlobalBytes (*bytes)(const BackwardArguments&);
    /// Throws std::invalid_argument unless it can run on q with so much shared memory.
    void (*check)(const std::string& entry, const torch::Tensor& q, std::size_t shared_bytes);
};

void check_plain(const std::string& entry, const torch::Tensor& q, std::size_t shared_bytes) {
    check_shared_memory(entry, shared_bytes, q.device(), "a smaller head dimension or a 16-bit dtype needs less");
}

void check_tiled(const std::string& entry, const torch::Tensor& q, std::size_t shared_bytes) {
    check_register_tiles(entry, q, shared_bytes, kWidestTiledBackward);
}

const DkdvKernel kPlain{.entry = "plain_backward",
                        .on_cpu = cpu::launch_backward_dkdv,
                        .on_cuda = cuda::launch_backward_dkdv,
                        .shared_bytes = cpu::backward_shared_bytes,
                        .bytes = cpu::backward_dkdv_bytes,
                        .check = check_plain};

const DkdvKernel kTiled{.entry = "tiled_backward",
                        .on_cpu = cpu::launch_backward_dkdv_tiled,
                        .on_cuda = cuda::launch_backward_dkdv_tiled,
                        .shared_bytes = cpu::backward_dkdv_tiled_shared_bytes,
                        .bytes = cpu::backward_dkdv_tiled_bytes,
                        .check = check_tiled};

AttentionGradients backward(const DkdvKernel& kernel, const torch::Tensor& dout, const torch::Tensor& q,
                            const torch::Tensor& k, const torch::Tensor& v, const torch::Tensor& out,
                            const torch::Tensor& lse, const AttentionOptions& options,
                            const BackwardOptions& backward_options, const std::optional<torch::Tensor>& dlse) {
    check_backward(dout, q, k, v, out, lse, options, backward_options, dlse);
    const bool adds = backward_options.gather == DqGather::atomics;
    const auto in_float32 = q.options().dtype(torch::kFloat32);
    BackwardArguments a(attention_arguments(q, k, v, out, lse, options));
    kernel.check(kernel.entry, q, kernel.shared_bytes(a));
    const AttentionGradients result{.dq = allocate(q.sizes(), q.options()),
                                    .dk = allocate(k.sizes(), k.options()),
                                    .dv = allocate(v.sizes(), v.options())};
    const torch::Tensor d = allocate(q.sizes().slice(0, 3), in_float32);
    const bool rounds = adds && q.scalar_type() != torch::kFloat32;
    const torch::Tensor dq_sum = rounds ? allocate(q.sizes(), in_float32) : result.dq;
    a.dout = tensor_argument("dO", dout);
    if (dlse) a.dlse = tensor_argument("dLSE", *dlse);
    a.d = tensor_argument("D", d);
    if (adds) a.dq_sum = tensor_argument(rounds ? "dQ sum" : "dQ", dq_sum);
    a.dq = tensor_argument("dQ", result.dq);
    a.dk = tensor_argument("dK", result.dk);
    a.dv = tensor_argument("dV", result.dv);

    run_on(q.device(), cpu::launch_backward_delta, cuda::launch_backward_delta, a);
    run_on(q.device(), kernel.on_cpu, kernel.on_cuda, a);
    if (!adds) run_on(q.device(), cpu::launch_backward_dq, cuda::launch_backward_dq, a);
    if (rounds) run_on(q.device(), cpu::launch_backward_round, cuda::launch_backward_round, a);
    check_written(kernel.entry, "dQ", result.dq);
    check_written(kernel.entry, "dK", result.dk);
    check_written(kernel.entry, "dV", result.dv);
    return result;
}

GlobalBytes backward_bytes(const DkdvKernel& kernel, const torch::Tensor& q, const torch::Tensor& k,
                           const torch::Tensor& v, const AttentionOptions& options,
                           const BackwardOptions& backward_options, bool has_dlse) {
    check_backward(q, k, v, options, backward_options);
    const bool adds = backward_options.gather == DqGather::atomics;
    BackwardArguments a(attention_arguments(q, k, v, q, {}, options));
    if (has_dlse) a.dlse.rank = 3;
    if (adds) a.dq_sum.rank = 4;
    const GlobalBytes delta = cpu::backward_delta_bytes(a), dkdv = kernel.bytes(a);
    if (!adds) return bytes_together({delta, dkdv, cpu::backward_dq_bytes(a)});
    if (q.scalar_type() == torch::kFloat32) return bytes_together({delta, dkdv});
    return bytes_together({delta, dkdv, cpu::backward_round_bytes(a)});
}

}  // namespace

AttentionGradients plain_backward(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k,
                                  const torch::Tensor& v, const torch::Tensor& out, const torch::Tensor& lse,
                                  const AttentionOptions& options, const BackwardOptions& backward_options,
                                  const std::optional<torch::Tensor>& dlse) {
    return backward(kPlain, dout, q, k, v, out, lse, options, backward_options, dlse);
}

AttentionGradients tiled_backward(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k,
                                  const torch::Tensor& v, const torch::Tensor& out, const torch::Tensor& lse,
                                  const AttentionOptions& options, const BackwardOptions& backward_options,
                                  const std::optional<torch::Tensor>& dlse) {
    return backward(kTiled, dout, q, k, v, out, lse, options, backward_options, dlse);
}

void check_tiled_backward(const torch::Tensor& q) {
    BackwardArguments a;
    a.q = tensor_argument("Q", q);
    check_tiled(kTiled.entry, q, kTiled.shared_bytes(a));
}

GlobalBytes plain_backward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                 const AttentionOptions& options, const BackwardOptions& backward_options,
                                 bool has_dlse) {
    return backward_bytes(kPlain, q, k, v, options, backward_options, has_dlse);
}

GlobalBytes tiled_backward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                 const AttentionOptions& options, const BackwardOptions& backward_options,
                                 bool has_dlse) {
    return backward_bytes(kTiled, q, k, v, options, backward_options, has_dlse);
}

namespace {

using Gradients = std::tuple<torch::Tensor, torch::Tensor, torch::Tensor>;

DqGather gather_named(const std::string& name) {
    if (name == "second_pass") return DqGather::second_pass;
    if (name == "atomics") return DqGather::atomics;
    throw std::invalid_argument("gather: it is \"" + name + "\"; second_pass and atomics are accepted");
}

Gradients backward_operator(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k,
                            const torch::Tensor& v, const torch::Tensor& out, const torch::Tensor& lse,
                            const c10::optional<torch::Tensor>& dlse, const std::string& mask,
                            c10::optional<double> scale, const std::string& gather) {
    const AttentionGradients result =
        plain_backward(dout, q, k, v, out, lse, {.scale = from_schema(scale), .mask = mask_named(mask, kBackwardMasks)},
                       {.gather = gather_named(gather)}, from_schema(dlse));
    return {result.dq, result.dk, result.dv};
}

Gradients backward_shapes(const torch::Tensor&, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                          const torch::Tensor&, const torch::Tensor&, const c10::optional<torch::Tensor>&,
                          const std::string& mask, c10::optional<double>, const std::string& gather) {
    mask_named(mask, kBackwardMasks);
    gather_named(gather);
    for (const auto& [name, tensor] : {std::pair<const char*, const torch::Tensor&>("q", q), {"k", k}, {"v", v}})
        check_rank(name, tensor, 4);
    return {shaped_like(q, q.sym_sizes(), q.scalar_type()), shaped_like(q, k.sym_sizes(), q.scalar_type()),
            shaped_like(q, v.sym_sizes(), q.scalar_type())};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(flash_ladder, library) {
    register_operator(library, kPlain.entry,
                      "(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, *, Tensor? dlse=None, "
                      "str mask=\"none\", float? scale=None, str gather=\"second_pass\") -> "
                      "(Tensor dq, Tensor dk, Tensor dv)",
                      backward_operator, backward_shapes);
}

}  // namespace ladder
