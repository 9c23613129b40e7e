#pragma once

// How a phase registers its entries with PyTorch: within `TORCH_LIBRARY_FRAGMENT(flash_ladder, library)`, one
// register_operator() each makes `torch.ops.flash_ladder.<entry>` of them once libflash_ladder.so is loaded.

#include <torch/library.h>

#include <optional>
#include <string>
#include <tuple>
#include <type_traits>

#include "common/attention/options.h"

namespace ladder {

/// Operator schemas speak c10::optional, which became std::optional in PyTorch 2.
template <class T>
std::optional<T> from_schema(const c10::optional<T>& value) {
    return value ? std::optional<T>(*value) : std::nullopt;
}

/// What operators return of an AttentionResult.
using OutAndLse = std::tuple<torch::Tensor, torch::Tensor>;

/// An entry that takes q, k, v and a scale, as an operator.
template <auto entry>
OutAndLse attention_operator(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             c10::optional<double> scale) {
    const AttentionResult result = entry(q, k, v, {.scale = from_schema(scale)});
    return {result.out, result.lse};
}

/// The schema of such an operator.
inline constexpr const char* kAttentionSchema =
    "(Tensor q, Tensor k, Tensor v, *, float? scale=None) -> (Tensor out, Tensor lse)";

/// A tensor of that shape and dtype on q's device, for shape functions: sizes may be symbols.
torch::Tensor shaped_like(const torch::Tensor& q, c10::SymIntArrayRef sizes, torch::ScalarType dtype);

/// Throws std::invalid_argument unless `tensor` has that rank. For shape functions, which know no sizes.
void check_rank(const char* name, const torch::Tensor& tensor, int64_t rank);

/// The shapes of O and LSE for q, whatever else an operator takes.
OutAndLse shapes_for(const torch::Tensor& q);

/// The same, in the form of such an operator.
template <class... Others>
OutAndLse attention_shapes(const torch::Tensor& q, const torch::Tensor&, const torch::Tensor&, Others...) {
    return shapes_for(q);
}

/// Refuses tensors that require grad, and registers so much of the operator as concerns no types of C++.
void register_schema(torch::Library& library, const std::string& name, const std::string& schema);

/// Registers the operator `name` + `schema` (arguments and results): `kernel` for tensors on CPU and CUDA, and
/// `shapes`, which gives results without values, for meta tensors: with it torch.compile knows what the operator
/// returns. Tensors that require grad are refused, since their gradient would be lost: attention() has a backward pass.
template <class Result, class... Arguments>
void register_operator(torch::Library& library, const std::string& name, const std::string& schema,
                       Result (*kernel)(Arguments...), std::type_identity_t<Result (*)(Arguments...)> shapes) {
    register_schema(library, name, schema);
    for (const auto key : {c10::DispatchKey::CPU, c10::DispatchKey::CUDA})
        library.impl(name.c_str(), torch::dispatch(key, kernel));
    library.impl(name.c_str(), torch::dispatch(c10::DispatchKey::Meta, shapes));
}

}  // namespace ladder
