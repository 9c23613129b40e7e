#include "common/attention/registration.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>

#include <stdexcept>

namespace ladder {
namespace {

/// The kernel of every operator for tensors that autograd may follow: refuses those that it would have to follow, and
/// hands the others on to the kernel of their device.
void refuse_gradient(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    const auto& arguments = op.schema().arguments();
    const auto values = torch::jit::last(*stack, arguments.size());
    for (std::size_t i = 0; c10::GradMode::is_enabled() && i < arguments.size(); ++i)
        if (values[i].isTensor() && values[i].toTensor().requires_grad()) {
            const std::string& name = arguments[i].name();
            throw std::invalid_argument(name + ": it requires grad, but " + op.schema().name() +
                                        " has no backward pass, and the gradient would be lost; " +
                                        "flash_ladder::attention has one; or pass " + name +
                                        ".detach(), or call within torch.no_grad()");
        }
    op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
}

}  // namespace

torch::Tensor shaped_like(const torch::Tensor& q, c10::SymIntArrayRef sizes, torch::ScalarType dtype) {
    return at::empty_symint(sizes, q.options().dtype(dtype));
}

void check_rank(const char* name, const torch::Tensor& tensor, int64_t rank) {
    if (tensor.dim() != rank)
        throw std::invalid_argument(std::string(name) + ": the rank is " + std::to_string(tensor.dim()) + "; rank " +
                                    std::to_string(rank) + " is accepted");
}

OutAndLse shapes_for(const torch::Tensor& q) {
    check_rank("q", q, 4);
    return {shaped_like(q, q.sym_sizes(), q.scalar_type()), shaped_like(q, q.sym_sizes().slice(0, 3), torch::kFloat32)};
}

void register_schema(torch::Library& library, const std::string& name, const std::string& schema) {
    library.def((name + schema).c_str());
    library.impl(name.c_str(), torch::dispatch(c10::DispatchKey::Autograd,
                                               torch::CppFunction::makeFromBoxedFunction<&refuse_gradient>()));
}

}  // namespace ladder
