#include "phase7_hopper/hopper.h"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "common/attention/addressable.h"
#include "common/attention/check.h"
#include "common/attention/forward.h"
#include "common/attention/registration.h"
#include "common/attention/rungs.h"
#include "phase7_hopper/check_hopper.h"
#include "phase7_hopper/short_loops.h"

namespace ladder {

// The four kernels, compiled once per machine.
namespace cpu {
void launch_hopper(const AttentionArguments&);
GlobalBytes hopper_bytes(const AttentionArguments&);
std::size_t hopper_shared_bytes(const AttentionArguments&);
void launch_hopper_turns(const AttentionArguments&);
GlobalBytes hopper_turns_bytes(const AttentionArguments&);
std::size_t hopper_turns_shared_bytes(const AttentionArguments&);
void launch_hopper_overlapped(const AttentionArguments&);
GlobalBytes hopper_overlapped_bytes(const AttentionArguments&);
std::size_t hopper_overlapped_shared_bytes(const AttentionArguments&);
void launch_hopper_parts(const AttentionArguments&);
GlobalBytes hopper_parts_bytes(const AttentionArguments&);
std::size_t hopper_parts_shared_bytes(const AttentionArguments&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_hopper(const AttentionArguments&);
[[gnu::weak]] void launch_hopper_turns(const AttentionArguments&);
[[gnu::weak]] void launch_hopper_overlapped(const AttentionArguments&);
[[gnu::weak]] void launch_hopper_parts(const AttentionArguments&);
}  // namespace cuda

namespace {

using Kernel = ForwardKernel<>;

constexpr std::initializer_list<Mask> kMasks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};

const Kernel kPlain{.name = "hopper_plain_forward",
                    .on_cpu = cpu::launch_hopper,
                    .on_cuda = cuda::launch_hopper,
                    .bytes = cpu::hopper_bytes,
                    .shared_bytes = cpu::hopper_shared_bytes,
                    .check = check_hopper};

const Kernel kTurns{.name = "hopper_turns_forward",
                    .on_cpu = cpu::launch_hopper_turns,
                    .on_cuda = cuda::launch_hopper_turns,
                    .bytes = cpu::hopper_turns_bytes,
                    .shared_bytes = cpu::hopper_turns_shared_bytes,
                    .check = check_hopper};

Kernel overlapped(const char* name) {
    return {.name = name,
            .on_cpu = cpu::launch_hopper_overlapped,
            .on_cuda = cuda::launch_hopper_overlapped,
            .bytes = cpu::hopper_overlapped_bytes,
            .shared_bytes = cpu::hopper_overlapped_shared_bytes,
            .check = check_hopper};
}
const Kernel kOverlapped = overlapped("hopper_overlapped_forward");

const Kernel kParts{.name = "hopper_forward",
                    .on_cpu = cpu::launch_hopper_parts,
                    .on_cuda = cuda::launch_hopper_parts,
                    .bytes = cpu::hopper_parts_bytes,
                    .shared_bytes = cpu::hopper_parts_shared_bytes,
                    .check = check_hopper};
const Kernel kBeyondParts = overlapped("hopper_forward");

const Kernel& only_plain(const AttentionArguments&) { return kPlain; }
const Kernel& only_turns(const AttentionArguments&) { return kTurns; }
const Kernel& only_overlapped(const AttentionArguments&) { return kOverlapped; }
const Kernel& fastest(const AttentionArguments& a) {
    return a.head_dim() > 128 || (a.head_dim() > 64 && has_short_loops(a)) ? kBeyondParts : kParts;
}
using Choice = const Kernel& (*)(const AttentionArguments&);

AttentionResult run(Choice choose, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const AttentionOptions& options) {
    const AttentionArguments given = checked_arguments(q, k, v, options, kMasks);
    const Kernel& kernel = choose(given);
    kernel.check(kernel.name, q, kernel.shared_bytes(given));
    const torch::Tensor Q = made_addressable(q), K = made_addressable(k), V = made_addressable(v);
    AttentionArguments arguments = attention_arguments(Q, K, V, Q, {}, options);
    arguments.scale = given.scale;  // of the head dimension that was given
    AttentionResult result = forward(kernel, Q, arguments);
    if (Q.size(3) != q.size(3)) result.out = result.out.narrow(3, 0, q.size(3)).contiguous();
    return result;
}

GlobalBytes bytes_of(Choice choose, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                     const AttentionOptions& options) {
    const AttentionArguments a = checked_arguments(q, k, v, options, kMasks);
    return choose(a).bytes(a);
}

}  // namespace

AttentionResult hopper_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const AttentionOptions& options) {
    return run(fastest, q, k, v, options);
}

AttentionResult hopper_plain_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options) {
    return run(only_plain, q, k, v, options);
}

AttentionResult hopper_turns_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options) {
    return run(only_turns, q, k, v, options);
}

AttentionResult hopper_overlapped_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                          const AttentionOptions& options) {
    return run(only_overlapped, q, k, v, options);
}

GlobalBytes hopper_forward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                 const AttentionOptions& options) {
    return bytes_of(fastest, q, k, v, options);
}

GlobalBytes hopper_plain_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const AttentionOptions& options) {
    return bytes_of(only_plain, q, k, v, options);
}

GlobalBytes hopper_turns_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const AttentionOptions& options) {
    return bytes_of(only_turns, q, k, v, options);
}

GlobalBytes hopper_overlapped_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                    const AttentionOptions& options) {
    return bytes_of(only_overlapped, q, k, v, options);
}

namespace {

OutAndLse hopper_operator(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                          const std::string& mask, c10::optional<double> scale) {
    const AttentionResult result =
        hopper_forward(q, k, v, {.scale = from_schema(scale), .mask = mask_named(mask, kMasks)});
    return {result.out, result.lse};
}

OutAndLse hopper_shapes(const torch::Tensor& q, const torch::Tensor&, const torch::Tensor&, const std::string& mask,
                        c10::optional<double>) {
    mask_named(mask, kMasks);
    return shapes_for(q);
}

const RegisterRung registered(ForwardRung{
    .name = "hopper_forward",
    .rank = Rank::hopper,
    .reason = "wgmma multiplies its 16-bit tiles while others are fetched",
    .objection = [](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const AttentionOptions& options) -> std::string {
        if (q.element_size() > 2) return "tensor cores take 16 bits, and q has 32";
        if (!device_limits(q.device()).features.has(simt::Feature::wgmma)) return "the device has no wgmma";
        // On an H200, D = 64, 512 tokens: 242 TFLOP/s, mma_forward 283. Other rows mma_forward copies by elements.
        if (q.size(3) <= 64 && q.size(3) % 8 == 0 && std::max(q.size(2), k.size(2)) <= 512)
            return "with few tokens and columns mma.sync is faster";
        const AttentionArguments a = attention_arguments(q, k, v, q, {}, options);
        return objection_of([&] { check_hopper("hopper_forward", q, fastest(a).shared_bytes(a)); });
    },
    .run = hopper_forward});

}  // namespace

TORCH_LIBRARY_FRAGMENT(flash_ladder, library) {
    register_operator(library, "hopper_forward",
                      "(Tensor q, Tensor k, Tensor v, *, str mask=\"none\", float? scale=None) -> "
                      "(Tensor out, Tensor lse)",
                      hopper_operator, hopper_shapes);
}

}  // namespace ladder
