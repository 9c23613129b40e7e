#include "common/attention/attention.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>

#include <stdexcept>

#include "common/attention/check.h"
#include "common/attention/registration.h"
#include "common/attention/rungs.h"

namespace ladder {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Scale = c10::optional<double>;
using Gradients = std::tuple<torch::Tensor, torch::Tensor, torch::Tensor>;

constexpr std::initializer_list<Mask> kMasks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};

const char* name_of(Mask mask) {
    switch (mask) {
        case Mask::none:
            return "none";
        case Mask::causal_bottom_right:
            return "causal_bottom_right";
        case Mask::causal_top_left:
            return "causal_top_left";
    }
    throw std::invalid_argument("mask: it is " + std::to_string(int(mask)) +
                                "; none, causal_bottom_right and causal_top_left are accepted");
}

AttentionOptions options_of(const std::string& mask, const Scale& scale) {
    return {.scale = from_schema(scale), .mask = mask_named(mask, kMasks)};
}

/// The operator as the dispatcher has it, so that whatever watches operators, such as torch.compile, sees every call.
template <class Signature>
c10::TypedOperatorHandle<Signature> operator_named(const char* name) {
    return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

OutAndLse call_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, const std::string& mask,
                       Scale scale) {
    static const auto op = operator_named<OutAndLse(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                                                    const std::string&, Scale)>("flash_ladder::attention_with_lse");
    return op.call(q, k, v, mask, scale);
}

Gradients call_backward(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k,
                        const torch::Tensor& v, const torch::Tensor& out, const torch::Tensor& lse,
                        const c10::optional<torch::Tensor>& dlse, const std::string& mask, Scale scale) {
    static const auto op =
        operator_named<Gradients(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                                 const torch::Tensor&, const torch::Tensor&, const c10::optional<torch::Tensor>&,
                                 const std::string&, Scale)>("flash_ladder::attention_backward");
    return op.call(dout, q, k, v, out, lse, dlse, mask, scale);
}

// ---- On a device ---------------------------------------------------------------------------------------------------

OutAndLse forward_kernel(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                         const std::string& mask, Scale scale) {
    const AttentionOptions options = options_of(mask, scale);
    check_attention(q, k, v, options, kMasks);
    const AttentionResult result = forward_rung(q, k, v, options).run(q, k, v, options);
    return {result.out, result.lse};
}

torch::Tensor out_kernel(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                         const std::string& mask, Scale scale) {
    return std::get<0>(forward_kernel(q, k, v, mask, scale));
}

/// Gradients come as they come: that of a sum, for instance, is one number in all places.
torch::Tensor with_rows(const torch::Tensor& gradient) {
    return gradient.dim() > 0 && gradient.stride(-1) == 1 ? gradient : gradient.contiguous();
}

Gradients backward_kernel(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k,
                          const torch::Tensor& v, const torch::Tensor& out, const torch::Tensor& lse,
                          const c10::optional<torch::Tensor>& dlse, const std::string& mask, Scale scale) {
    const AttentionOptions options = options_of(mask, scale);
    check_attention(q, k, v, options, kMasks);
    const AttentionGradients d =
        backward_rung(q, k, v, options)
            .run(with_rows(dout), q, k, v, out, lse, options, dlse ? std::optional(with_rows(*dlse)) : std::nullopt);
    return {d.dq, d.dk, d.dv};
}

// ---- For tensors without values ------------------------------------------------------------------------------------

OutAndLse forward_shapes(const torch::Tensor& q, const torch::Tensor&, const torch::Tensor&, const std::string& mask,
                         Scale) {
    mask_named(mask, kMasks);
    return shapes_for(q);
}

torch::Tensor out_shape(const torch::Tensor& q, const torch::Tensor&, const torch::Tensor&, const std::string& mask,
                        Scale) {
    mask_named(mask, kMasks);
    check_rank("q", q, 4);
    return shaped_like(q, q.sym_sizes(), q.scalar_type());
}

Gradients backward_shapes(const torch::Tensor&, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                          const torch::Tensor&, const torch::Tensor&, const c10::optional<torch::Tensor>&,
                          const std::string& mask, Scale) {
    mask_named(mask, kMasks);
    return {shaped_like(q, q.sym_sizes(), q.scalar_type()), shaped_like(k, k.sym_sizes(), k.scalar_type()),
            shaped_like(v, v.sym_sizes(), v.scalar_type())};
}

// ---- For autograd --------------------------------------------------------------------------------------------------

/// Attention, and what its backward pass needs.
struct Differentiable : torch::autograd::Function<Differentiable> {
    static variable_list forward(AutogradContext* context, const torch::Tensor& q, const torch::Tensor& k,
                                 const torch::Tensor& v, const std::string& mask, Scale scale) {
        const at::AutoDispatchBelowADInplaceOrView to_the_device;
        const auto [out, lse] = call_forward(q, k, v, mask, scale);
        context->set_materialize_grads(false);  // most losses look at one of the two
        context->save_for_backward({q, k, v, out, lse});
        context->saved_data["mask"] = mask;
        context->saved_data["scale"] = scale;
        return {out, lse};
    }

    static variable_list backward(AutogradContext* context, const variable_list& gradients) {
        const variable_list saved = context->get_saved_variables();
        const torch::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &lse = saved[4];
        const torch::Tensor dout = gradients[0].defined() ? gradients[0] : at::zeros_like(out);
        const auto dlse = gradients[1].defined() ? c10::optional<torch::Tensor>(gradients[1]) : c10::nullopt;
        const auto [dq, dk, dv] =
            call_backward(dout, q, k, v, out, lse, dlse, context->saved_data["mask"].toStringRef(),
                          context->saved_data["scale"].toOptional<double>());
        return {dq, dk, dv, torch::Tensor(), torch::Tensor()};
    }
};

/// The backward pass. Autograd may pass through (with create_graph), but not come back.
struct Once : torch::autograd::Function<Once> {
    static variable_list forward(AutogradContext*, const torch::Tensor& dout, const torch::Tensor& q,
                                 const torch::Tensor& k, const torch::Tensor& v, const torch::Tensor& out,
                                 const torch::Tensor& lse, const c10::optional<torch::Tensor>& dlse,
                                 const std::string& mask, Scale scale) {
        const at::AutoDispatchBelowADInplaceOrView to_the_device;
        const auto [dq, dk, dv] = call_backward(dout, q, k, v, out, lse, dlse, mask, scale);
        return {dq, dk, dv};
    }

    static variable_list backward(AutogradContext*, const variable_list&) {
        throw std::runtime_error(
            "flash_ladder::attention: it has no second derivative, and a gradient of its gradient was asked for; "
            ".detach() the gradients, or write attention with matmul and softmax where it must be differentiated "
            "twice");
    }
};

OutAndLse forward_autograd(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                           const std::string& mask, Scale scale) {
    const variable_list results = Differentiable::apply(q, k, v, mask, scale);
    return {results[0], results[1]};
}

torch::Tensor out_autograd(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                           const std::string& mask, Scale scale) {
    return std::get<0>(forward_autograd(q, k, v, mask, scale));
}

Gradients backward_autograd(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k,
                            const torch::Tensor& v, const torch::Tensor& out, const torch::Tensor& lse,
                            const c10::optional<torch::Tensor>& dlse, const std::string& mask, Scale scale) {
    const variable_list results = Once::apply(dout, q, k, v, out, lse, dlse, mask, scale);
    return {results[0], results[1], results[2]};
}

// ---- Which, and why ------------------------------------------------------------------------------------------------

std::tuple<std::string, std::string, std::string> rung_kernel(const torch::Tensor& q, const torch::Tensor& k,
                                                              const torch::Tensor& v, const std::string& mask,
                                                              Scale scale) {
    const AttentionChoice choice = attention_choice(q, k, v, options_of(mask, scale));
    return {choice.forward, choice.backward, choice.why};
}

/// An operator for both devices, for tensors without values and for autograd.
template <class Result, class... Arguments>
void register_differentiable(torch::Library& library, const char* name, const std::string& schema,
                             Result (*kernel)(Arguments...), std::type_identity_t<Result (*)(Arguments...)> shapes,
                             std::type_identity_t<Result (*)(Arguments...)> autograd) {
    library.def((name + schema).c_str());
    for (const auto key : {c10::DispatchKey::CPU, c10::DispatchKey::CUDA})
        library.impl(name, torch::dispatch(key, kernel));
    library.impl(name, torch::dispatch(c10::DispatchKey::Meta, shapes));
    library.impl(name, torch::dispatch(c10::DispatchKey::Autograd, autograd));
}

}  // namespace

torch::Tensor attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                        const AttentionOptions& options) {
    static const auto op =
        operator_named<torch::Tensor(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                                     const std::string&, Scale)>("flash_ladder::attention");
    check_attention(q, k, v, options, kMasks);  // before the dispatcher looks at tensors that may not even be there
    return op.call(q, k, v, name_of(options.mask), options.scale ? Scale(*options.scale) : c10::nullopt);
}

AttentionResult attention_with_lse(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const AttentionOptions& options) {
    check_attention(q, k, v, options, kMasks);
    const auto [out, lse] =
        call_forward(q, k, v, name_of(options.mask), options.scale ? Scale(*options.scale) : c10::nullopt);
    return {.out = out, .lse = lse};
}

AttentionGradients attention_backward(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k,
                                      const torch::Tensor& v, const torch::Tensor& out, const torch::Tensor& lse,
                                      const std::optional<torch::Tensor>& dlse, const AttentionOptions& options) {
    const auto [dq, dk, dv] =
        call_backward(dout, q, k, v, out, lse, dlse ? c10::optional<torch::Tensor>(*dlse) : c10::nullopt,
                      name_of(options.mask), options.scale ? Scale(*options.scale) : c10::nullopt);
    return {.dq = dq, .dk = dk, .dv = dv};
}

TORCH_LIBRARY_FRAGMENT(flash_ladder, library) {
    const std::string arguments = "(Tensor q, Tensor k, Tensor v, str mask=\"none\", float? scale=None)";
    register_differentiable(library, "attention", arguments + " -> Tensor", out_kernel, out_shape, out_autograd);
    register_differentiable(library, "attention_with_lse", arguments + " -> (Tensor out, Tensor lse)", forward_kernel,
                            forward_shapes, forward_autograd);
    register_differentiable(library, "attention_backward",
                            "(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor? dlse=None, "
                            "str mask=\"none\", float? scale=None) -> (Tensor dq, Tensor dk, Tensor dv)",
                            backward_kernel, backward_shapes, backward_autograd);
    library.def(("attention_rung" + arguments + " -> (str forward, str backward, str why)").c_str());
    for (const auto key : {c10::DispatchKey::CPU, c10::DispatchKey::CUDA})
        library.impl("attention_rung", torch::dispatch(key, rung_kernel));
}

}  // namespace ladder
