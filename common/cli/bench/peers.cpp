#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "common/cli/bench/contestant.h"

namespace ladder::cli::bench {
namespace {

/// An operator of PyTorch, found by name when the program runs: versions differ in which there are, and in their
/// parameters.
class Operator {
  public:
    /// `settings` are the parameters beyond query, key and value that are not to be left at their defaults; those that
    /// this version's operator does not have are left out.
    static std::optional<Operator> find(const std::string& name, const std::map<std::string, c10::IValue>& settings) {
        const auto handle = c10::Dispatcher::singleton().findSchema({"aten::" + name, ""});
        if (!handle) return std::nullopt;
        return Operator(*handle, settings);
    }

    bool has_parameter(const std::string& name) const {
        return handle_.schema().argumentIndexWithName(name).has_value();
    }

    torch::Tensor operator()(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& value) const {
        std::vector<c10::IValue> stack = parameters_;
        stack[0] = query;
        stack[1] = key;
        stack[2] = value;
        handle_.callBoxed(&stack);
        return stack.front().toTensor();
    }

  private:
    Operator(const c10::OperatorHandle& handle, const std::map<std::string, c10::IValue>& settings) : handle_(handle) {
        for (const c10::Argument& argument : handle_.schema().arguments()) {
            const auto given = settings.find(argument.name());
            parameters_.push_back(given != settings.end()    ? given->second
                                  : argument.default_value() ? *argument.default_value()
                                                             : c10::IValue());
        }
    }

    c10::OperatorHandle handle_;
    std::vector<c10::IValue> parameters_;
};

/// One backend of torch.nn.functional.scaled_dot_product_attention, as the operator that it ends in. Called directly,
/// so that it is certain which one runs.
struct Backend {
    const char* name;
    const char* on_gpu;
    const char* on_cpu;  ///< null where PyTorch has none
    bool only_16_bit;    ///< on a GPU; the operators do not all check this themselves
    bool grouped_heads;
};

constexpr Backend kBackends[] = {
    {"math", "_scaled_dot_product_attention_math", "_scaled_dot_product_attention_math", false, true},
    {"efficient", "_scaled_dot_product_efficient_attention", nullptr, false, false},
    {"flash", "_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_for_cpu", true, true},
    {"cuDNN", "_scaled_dot_product_cudnn_attention", nullptr, true, true},
};

std::string refusal(const Backend& backend, const Problem& p, torch::Device device) {
    if (!device.is_cuda() && !backend.on_cpu) return "PyTorch has it on GPUs only";
    if (device.is_cuda() && backend.only_16_bit && p.dtype == torch::kFloat32) return "takes 16-bit types only";
    if (!backend.grouped_heads && p.query_heads != p.kv_heads) return "takes no grouped heads";
    if (p.mask != Mask::none && p.queries != p.keys) return "aligns its causal mask top-left";
    return "";
}

Contestant counted(const std::string& name, const Problem& p) {
    return {.name = name, .role = Role::peer, .flops = useful_flops(p), .useful_bytes = useful_bytes(p)};
}

Contestant unavailable(const std::string& name, const std::string& reason) {
    return {.name = name, .role = Role::peer, .not_available = reason};
}

/// What the backward pass of a peer is given: the output with its history, what it is differentiated by, and dout.
Tensors differentiable(const std::function<torch::Tensor(const Tensors&)>& forward, const Tensors& inputs) {
    const at::AutoGradMode with_gradients(true);
    Tensors leaves;
    for (int i = 0; i < 3; ++i) leaves.push_back(inputs[i].detach().requires_grad_());
    const torch::Tensor out = forward(leaves);
    return {out, leaves[0], leaves[1], leaves[2], inputs[3]};
}

Tensors differentiate(const Tensors& t) {
    try {
        return torch::autograd::grad({t[0]}, {t[1], t[2], t[3]}, {t[4]}, /*retain_graph=*/true);
    } catch (const c10::Error& error) {
        // PyTorch 2.11's engine loses what a node throws on a GPU, and finds itself without a result.
        if (std::string_view(error.what()).find("isTensorList()") == std::string_view::npos) throw;
        throw std::runtime_error("its backward pass failed, presumably out of memory: PyTorch lost the reason");
    }
}

Contestant contestant(const Backend& backend, const Problem& p, torch::Device device) {
    if (const std::string reason = refusal(backend, p, device); !reason.empty())
        return unavailable(backend.name, reason);
    const auto operation = Operator::find(device.is_cuda() ? backend.on_gpu : backend.on_cpu,
                                          {{"is_causal", p.mask != Mask::none},
                                           {"enable_gqa", p.query_heads != p.kv_heads},
                                           {"compute_log_sumexp", p.work == Work::backward}});
    if (!operation) return unavailable(backend.name, "this version of PyTorch does not have it");
    Contestant result = counted(backend.name, p);
    // Where the math backend takes no grouped heads yet, a user repeats the keys and values, and pays for it.
    const std::int64_t repeats =
        std::string(backend.name) == "math" && !operation->has_parameter("enable_gqa") ? p.query_heads / p.kv_heads : 1;
    const auto forward = [operation, repeats](const Tensors& t) {
        if (repeats == 1) return (*operation)(t[0], t[1], t[2]);
        return (*operation)(t[0], t[1].repeat_interleave(repeats, 1), t[2].repeat_interleave(repeats, 1));
    };
    if (p.work == Work::backward) {
        result.prepare = [forward](const Tensors& t) { return differentiable(forward, t); };
        result.call = differentiate;
    } else {
        result.call = [forward](const Tensors& t) { return Tensors{forward(t)}; };
    }
    return result;
}

}  // namespace

std::vector<Contestant> peers(const Problem& problem, torch::Device device) {
    std::vector<Contestant> result;
    if (problem.work == Work::softmax) {
        result.push_back(counted("torch", problem));
        result.back().call = [](const Tensors& t) { return Tensors{at::softmax(t[0], -1)}; };
        return result;
    }
    for (const Backend& backend : kBackends) result.push_back(contestant(backend, problem, device));
    return result;
}

}  // namespace ladder::cli::bench
