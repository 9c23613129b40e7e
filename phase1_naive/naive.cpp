#include "phase1_naive/naive.h"

#include <array>
#include <stdexcept>
#include <string>

#include "common/attention/check.h"
#include "common/attention/forward.h"
#include "common/attention/registration.h"
#include "phase1_naive/launches.h"

namespace ladder {
namespace {

const ForwardKernel<StandardArguments> kStandard{
    .name = "standard_attention",
    .on_cpu = cpu::launch_standard_attention,
    .on_cuda = cuda::launch_standard_attention,
    .bytes = [](const StandardArguments& problem) { return cpu::standard_attention_bytes(problem); }};

struct BlockedScheme {
    Scheme scheme;
    ForwardKernel<BlockedArguments> kernel;
};
const BlockedScheme kSchemeA{Scheme::q_blocked,
                             {.name = "q_blocked_attention",
                              .on_cpu = cpu::launch_q_blocked,
                              .on_cuda = cuda::launch_q_blocked,
                              .bytes = cpu::q_blocked_bytes}};
const BlockedScheme kSchemeB{Scheme::qv_blocked,
                             {.name = "qv_blocked_attention",
                              .on_cpu = cpu::launch_qv_blocked,
                              .on_cuda = cuda::launch_qv_blocked,
                              .bytes = cpu::qv_blocked_bytes}};

/// S or P.
torch::Tensor allocate_scores(const torch::Tensor& q, const torch::Tensor& k) {
    try {
        return allocate({q.size(0), q.size(1), q.size(2), k.size(2)}, q.options());
    } catch (const c10::Error& error) {
        throw std::runtime_error("standard_attention: S and P take " + std::to_string(q.size(2)) + " x " +
                                 std::to_string(k.size(2)) + " elements for each of " + std::to_string(q.size(1)) +
                                 " heads of " + std::to_string(q.size(0)) +
                                 " sequences, and there is no memory for that; use phase 3 (fa2_forward), which keeps "
                                 "neither, or fewer tokens. The allocator said: " +
                                 error.what_without_backtrace());
    }
}

BlockedArguments blocked_arguments(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const AttentionOptions& options, int64_t block_rows) {
    const AttentionArguments problem = checked_arguments(q, k, v, options);
    if (block_rows < 1 || block_rows > kMaxBlockRows)
        throw std::invalid_argument("block_rows: it is " + std::to_string(block_rows) + "; 1 to " +
                                    std::to_string(kMaxBlockRows) + " are accepted, " +
                                    std::to_string(kDefaultBlockRows) + " is the default");
    return {problem, int(block_rows)};
}

/// What would fit instead, in a sentence.
std::string what_fits(const BlockedShape& shape, int64_t key_length, std::size_t limit) {
    const int64_t keys = largest_key_length(shape, limit), rows = largest_block_rows(shape, key_length, limit);
    return "block_rows = " + std::to_string(shape.block_rows) +
           (keys ? " fits N <= " + std::to_string(keys) + " keys" : " fits not even one key") +
           "; N = " + std::to_string(key_length) +
           (rows ? " fits block_rows <= " + std::to_string(rows) : " fits no block_rows at all") +
           "; phase 3 (fa2_forward) takes any number of keys";
}

AttentionResult blocked_attention(const BlockedScheme& scheme, const torch::Tensor& q,
                                  const BlockedArguments& problem) {
    const BlockedShape shape = problem.shape(scheme.scheme);
    const int64_t keys = problem.key_length();
    const std::size_t limit = std::size_t(device_limits(q.device()).shared_bytes_per_block_optin);
    check_shared_memory(scheme.kernel.name, shared_need(shape, keys).total(), q.device(),
                        what_fits(shape, keys, limit));
    return forward(scheme.kernel, q, problem);
}

}  // namespace

AttentionResult standard_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const AttentionOptions& options) {
    const StandardArguments problem{checked_arguments(q, k, v, options), {}, {}};
    return forward(kStandard, q, problem, [&](const AttentionResult&, StandardArguments& arguments) {
        const std::array scores_and_weights{allocate_scores(q, k), allocate_scores(q, k)};
        arguments.s = tensor_argument("S", scores_and_weights[0]);
        arguments.p = tensor_argument("P", scores_and_weights[1]);
        return scores_and_weights;
    });
}

AttentionResult q_blocked_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                    const AttentionOptions& options, int64_t block_rows) {
    return blocked_attention(kSchemeA, q, blocked_arguments(q, k, v, options, block_rows));
}

AttentionResult qv_blocked_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options, int64_t block_rows) {
    return blocked_attention(kSchemeB, q, blocked_arguments(q, k, v, options, block_rows));
}

GlobalBytes standard_attention_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options) {
    return cpu::standard_attention_bytes(checked_arguments(q, k, v, options));
}

GlobalBytes q_blocked_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options, int64_t block_rows) {
    return kSchemeA.kernel.bytes(blocked_arguments(q, k, v, options, block_rows));
}

GlobalBytes qv_blocked_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             const AttentionOptions& options, int64_t block_rows) {
    return kSchemeB.kernel.bytes(blocked_arguments(q, k, v, options, block_rows));
}

namespace {

template <auto entry>
OutAndLse blocked_operator(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                           c10::optional<double> scale, int64_t block_rows) {
    const AttentionResult result = entry(q, k, v, {.scale = from_schema(scale)}, block_rows);
    return {result.out, result.lse};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(flash_ladder, library) {
    register_operator(library, "standard_attention", kAttentionSchema, attention_operator<standard_attention>,
                      attention_shapes);
    const char* blocked =
        "(Tensor q, Tensor k, Tensor v, *, float? scale=None, int block_rows=64) -> (Tensor out, Tensor lse)";
    register_operator(library, "q_blocked_attention", blocked, blocked_operator<q_blocked_attention>, attention_shapes);
    register_operator(library, "qv_blocked_attention", blocked, blocked_operator<qv_blocked_attention>,
                      attention_shapes);
}

}  // namespace ladder
