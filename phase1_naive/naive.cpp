#include "phase1_naive/naive.h"

#include <stdexcept>
#include <string>

#include "common/attention/check.h"
#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "common/attention/registration.h"
#include "phase1_naive/launches.h"

namespace ladder {
namespace {

AttentionResult allocate_result(const torch::Tensor& q) {
    return {.out = allocate(q.sizes(), q.options()),
            .lse = allocate(q.sizes().slice(0, 3), q.options().dtype(torch::kFloat32))};
}

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

void check_block_rows(int64_t block_rows) {
    if (block_rows < 1 || block_rows > kMaxBlockRows)
        throw std::invalid_argument("block_rows: it is " + std::to_string(block_rows) + "; 1 to " +
                                    std::to_string(kMaxBlockRows) + " are accepted, " +
                                    std::to_string(kDefaultBlockRows) + " is the default");
}

BlockedArguments blocked_arguments(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const AttentionResult& result, const AttentionOptions& options, int64_t block_rows) {
    return {attention_arguments(q, k, v, result.out, result.lse, options), int(block_rows)};
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

AttentionResult blocked_attention(const char* name, Scheme scheme, void (*on_cpu)(const BlockedArguments&),
                                  void (*on_cuda)(const BlockedArguments&), const torch::Tensor& q,
                                  const torch::Tensor& k, const torch::Tensor& v, const AttentionOptions& options,
                                  int64_t block_rows) {
    check_attention(q, k, v, options);
    check_block_rows(block_rows);
    const BlockedShape shape = blocked_arguments(q, k, v, {.out = q, .lse = {}}, options, block_rows).shape(scheme);
    const std::size_t limit = std::size_t(device_limits(q.device()).shared_bytes_per_block_optin);
    check_shared_memory(name, shared_need(shape, k.size(2)).total(), q.device(), what_fits(shape, k.size(2), limit));

    AttentionResult result = allocate_result(q);
    run_on(q.device(), on_cpu, on_cuda, blocked_arguments(q, k, v, result, options, block_rows));
    check_written(name, result);
    return result;
}

}  // namespace

AttentionResult standard_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const AttentionOptions& options) {
    check_attention(q, k, v, options);
    const torch::Tensor s = allocate_scores(q, k), p = allocate_scores(q, k);
    AttentionResult result = allocate_result(q);
    run_on(q.device(), cpu::launch_standard_attention, cuda::launch_standard_attention,
           StandardArguments{attention_arguments(q, k, v, result.out, result.lse, options), tensor_argument("S", s),
                             tensor_argument("P", p)});
    check_written("standard_attention", result);
    return result;
}

AttentionResult q_blocked_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                    const AttentionOptions& options, int64_t block_rows) {
    return blocked_attention("q_blocked_attention", Scheme::q_blocked, cpu::launch_q_blocked, cuda::launch_q_blocked, q,
                             k, v, options, block_rows);
}

AttentionResult qv_blocked_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options, int64_t block_rows) {
    return blocked_attention("qv_blocked_attention", Scheme::qv_blocked, cpu::launch_qv_blocked,
                             cuda::launch_qv_blocked, q, k, v, options, block_rows);
}

GlobalBytes standard_attention_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options) {
    check_attention(q, k, v, options);
    return cpu::standard_attention_bytes(attention_arguments(q, k, v, q, {}, options));
}

GlobalBytes q_blocked_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options, int64_t block_rows) {
    check_attention(q, k, v, options);
    check_block_rows(block_rows);
    return cpu::q_blocked_bytes(blocked_arguments(q, k, v, {.out = q, .lse = {}}, options, block_rows));
}

GlobalBytes qv_blocked_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             const AttentionOptions& options, int64_t block_rows) {
    check_attention(q, k, v, options);
    check_block_rows(block_rows);
    return cpu::qv_blocked_bytes(blocked_arguments(q, k, v, {.out = q, .lse = {}}, options, block_rows));
}

TORCH_LIBRARY_FRAGMENT(flash_ladder, library) {
    library.def(
        "standard_attention(Tensor q, Tensor k, Tensor v, *, float? scale=None) -> (Tensor out, Tensor lse)",
        [](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, c10::optional<double> scale) {
            const AttentionResult r = standard_attention(q, k, v, {.scale = from_schema(scale)});
            return std::tuple(r.out, r.lse);
        });
    library.def(
        "q_blocked_attention(Tensor q, Tensor k, Tensor v, *, float? scale=None, int block_rows=64) -> (Tensor out, "
        "Tensor lse)",
        [](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, c10::optional<double> scale,
           int64_t block_rows) {
            const AttentionResult r = q_blocked_attention(q, k, v, {.scale = from_schema(scale)}, block_rows);
            return std::tuple(r.out, r.lse);
        });
    library.def(
        "qv_blocked_attention(Tensor q, Tensor k, Tensor v, *, float? scale=None, int block_rows=64) -> (Tensor out, "
        "Tensor lse)",
        [](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, c10::optional<double> scale,
           int64_t block_rows) {
            const AttentionResult r = qv_blocked_attention(q, k, v, {.scale = from_schema(scale)}, block_rows);
            return std::tuple(r.out, r.lse);
        });
}

}  // namespace ladder
