#include "common/attention/forward.h"

#include "common/attention/check.h"
#include "common/attention/outputs.h"

namespace ladder {

AttentionArguments checked_arguments(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options, std::initializer_list<Mask> masks) {
    check_attention(q, k, v, options, masks);
    return attention_arguments(q, k, v, q, {}, options);
}

AttentionResult allocate_result(const torch::Tensor& q, AttentionArguments& arguments) {
    AttentionResult result{.out = allocate(q.sizes(), q.options()),
                           .lse = allocate(q.sizes().slice(0, 3), q.options().dtype(torch::kFloat32))};
    arguments.out = tensor_argument("O", result.out);
    arguments.lse = tensor_argument("LSE", result.lse);
    return result;
}

}  // namespace ladder
