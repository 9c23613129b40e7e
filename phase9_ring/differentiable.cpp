#include "phase9_ring/differentiable.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <stdexcept>

namespace ladder {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// What the backward pass needs besides tensors.
struct Call : torch::CustomClassHolder {
    Call(const SharedAttention& how, const distributed::Group& group, const RingOptions& options)
        : how(how), group(group), options(options) {}

    const SharedAttention& how;
    distributed::Group group;
    RingOptions options;
};

struct Function : torch::autograd::Function<Function> {
    static variable_list forward(AutogradContext* context, const torch::Tensor& q, const torch::Tensor& k,
                                 const torch::Tensor& v, const c10::intrusive_ptr<Call>& call) {
        const at::AutoDispatchBelowADInplaceOrView to_the_device;
        const AttentionResult result = call->how.forward(q, k, v, call->group, call->options);
        context->set_materialize_grads(false);  // most losses look at one of the two
        context->save_for_backward({q, k, v, result.out, result.lse});
        context->saved_data["call"] = c10::IValue::make_capsule(call);
        return {result.out, result.lse};
    }

    static variable_list backward(AutogradContext* context, const variable_list& gradients) {
        if (at::GradMode::is_enabled())
            throw std::runtime_error(
                "ring attention: it has no second derivative; call the backward pass without create_graph");
        const variable_list saved = context->get_saved_variables();
        const torch::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &lse = saved[4];
        const auto call = c10::static_intrusive_pointer_cast<Call>(context->saved_data["call"].toCapsule());
        const torch::Tensor dout = gradients[0].defined() ? gradients[0].contiguous() : at::zeros_like(out);
        const auto dlse = gradients[1].defined() ? std::optional(gradients[1].contiguous()) : std::nullopt;
        const AttentionGradients d = call->how.backward({.dout = dout, .dlse = dlse, .q = q, .out = out, .lse = lse}, k,
                                                        v, call->group, call->options);
        return {d.dq, d.dk, d.dv, torch::Tensor()};
    }
};

}  // namespace

AttentionResult with_autograd(const SharedAttention& how, const torch::Tensor& q, const torch::Tensor& k,
                              const torch::Tensor& v, const distributed::Group& group, const RingOptions& options) {
    const variable_list results = Function::apply(q, k, v, c10::make_intrusive<Call>(how, group, options));
    return {.out = results[0], .lse = results[1]};
}

}  // namespace ladder
