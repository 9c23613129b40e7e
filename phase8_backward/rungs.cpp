#include "common/attention/rungs.h"

#include <algorithm>
#include <string>

#include "phase8_backward/backward.h"
#include "phase8_backward/hopper_backward.h"
#include "phase8_backward/mma_backward.h"

namespace ladder {
namespace {

// What attention() may choose for its backward pass. All repeat bitwise: dQ is added up in a second pass, or in order.
const RegisterRung plain(BackwardRung{
    .name = "plain_backward",
    .rank = Rank::plain,
    .reason = "it takes every dtype, mask and shape, on any device",
    .objection = [](const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                    const AttentionOptions&) -> std::string { return ""; },
    .run =
        [](const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
           const torch::Tensor& out, const torch::Tensor& lse, const AttentionOptions& options,
           const std::optional<torch::Tensor>& dlse) {
            return plain_backward(dout, q, k, v, out, lse, options, {}, dlse);
        }});

/// Below four tiles of queries or keys most of the last tile is empty, and a causal mask hides most of the others.
constexpr int64_t kShortestForLargeTiles = 512;

const RegisterRung with_large_tiles(BackwardRung{
    .name = "tiled_backward",
    .rank = Rank::registers,
    .reason = "a thread has 8 x 8 scores in registers, and the next queries are on their way meanwhile",
    .objection = [](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor&,
                    const AttentionOptions&) -> std::string {
        if (std::min(q.size(2), k.size(2)) < kShortestForLargeTiles)
            return "its large tiles pay from " + std::to_string(kShortestForLargeTiles) + " queries and keys on";
        return objection_of([&] { check_tiled_backward(q); });
    },
    .run =
        [](const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
           const torch::Tensor& out, const torch::Tensor& lse, const AttentionOptions& options,
           const std::optional<torch::Tensor>& dlse) {
            return tiled_backward(dout, q, k, v, out, lse, options, {}, dlse);
        }});

const RegisterRung on_tensor_cores(BackwardRung{
    .name = "mma_backward",
    .rank = Rank::tensor_cores,
    .reason = "tensor cores multiply its 16-bit tiles, and P and dS never leave registers for their own product",
    .objection = [](const torch::Tensor& q, const torch::Tensor&, const torch::Tensor&,
                    const AttentionOptions&) -> std::string {
        if (q.element_size() > 2) return "tensor cores take 16 bits, and q has 32";
        return objection_of([&] { check_mma_backward(q); });
    },
    .run =
        [](const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
           const torch::Tensor& out, const torch::Tensor& lse, const AttentionOptions& options,
           const std::optional<torch::Tensor>& dlse) {
            return mma_backward(dout, q, k, v, out, lse, options, {}, dlse);
        }});

const RegisterRung on_hopper(BackwardRung{
    .name = "hopper_backward",
    .rank = Rank::hopper,
    .reason = "warpgroups multiply what the accelerator fetches, and no product waits for a copy",
    .objection = [](const torch::Tensor& q, const torch::Tensor&, const torch::Tensor&,
                    const AttentionOptions&) -> std::string {
        if (q.element_size() > 2) return "tensor cores take 16 bits, and q has 32";
        return objection_of([&] { check_hopper_backward(q); });
    },
    .run =
        [](const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
           const torch::Tensor& out, const torch::Tensor& lse, const AttentionOptions& options,
           const std::optional<torch::Tensor>& dlse) {
            return hopper_backward(dout, q, k, v, out, lse, options, {.gather = DqGather::in_order}, dlse);
        }});

}  // namespace
}  // namespace ladder
