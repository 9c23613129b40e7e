#include "common/attention/check.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include "common/attention/machine.h"

namespace ladder {
namespace {

template <class... Part>
[[noreturn]] void refuse(const std::string& name, const Part&... part) {
    std::ostringstream message;
    message << name << ": ";
    (message << ... << part);
    throw std::invalid_argument(message.str());
}

std::string name_of(Mask mask) {
    switch (mask) {
        case Mask::none:
            return "none";
        case Mask::causal_bottom_right:
            return "causal_bottom_right";
        case Mask::causal_top_left:
            return "causal_top_left";
    }
    return "unknown";
}

std::string names_of(std::initializer_list<Mask> masks) {
    std::string names;
    for (const Mask mask : masks) names += (names.empty() ? "" : ", ") + name_of(mask);
    return names;
}

void check_same(const std::string& name, const std::string& what, int64_t got, const std::string& other,
                int64_t expected) {
    if (got != expected) refuse(name, what, " is ", got, ", but ", other, "'s is ", expected, "; they must be equal");
}

}  // namespace

std::string shape_of(const torch::Tensor& tensor) {
    std::ostringstream text;
    text << tensor.sizes();
    return text.str();
}

void check_tensor(const std::string& name, const torch::Tensor& tensor, int64_t rank) {
    if (!tensor.defined()) refuse(name, "the tensor is undefined; pass one of rank ", rank);
    if (tensor.layout() != torch::kStrided)
        refuse(name, "the layout is ", tensor.layout(), "; dense (strided) tensors are accepted, call .to_dense()");
    const auto dtype = tensor.scalar_type();
    if (dtype != torch::kFloat32 && dtype != torch::kFloat16 && dtype != torch::kBFloat16)
        refuse(name, "the dtype is ", dtype, "; float32, float16 and bfloat16 are accepted, convert with .to(…)");
    if (!tensor.device().is_cpu() && !tensor.device().is_cuda())
        refuse(name, "the device is ", tensor.device(), "; cpu and cuda are accepted");
    if (tensor.dim() != rank)
        refuse(name, "the shape is ", tensor.sizes(), " of rank ", tensor.dim(), "; rank ", rank, " is accepted");
    for (int64_t i = 0; i < rank; ++i)
        if (tensor.size(i) < 1)
            refuse(name, "the shape is ", tensor.sizes(), ": dimension ", i, " is 0; every size must be at least 1");
    if (tensor.size(rank - 1) > 1 && tensor.stride(rank - 1) != 1)
        refuse(name, "the last dimension has stride ", tensor.stride(rank - 1),
               "; it must be contiguous (stride 1), call .contiguous()");
}

void check_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                     const AttentionOptions& options, std::initializer_list<Mask> masks) {
    check_tensor("q", q, 4);
    check_tensor("k", k, 4);
    check_tensor("v", v, 4);
    for (const auto& [name, tensor] : {std::pair<const char*, const torch::Tensor&>{"k", k}, {"v", v}}) {
        if (tensor.scalar_type() != q.scalar_type())
            refuse(name, "the dtype is ", tensor.scalar_type(), ", but q's is ", q.scalar_type(),
                   "; all three must be equal, convert with .to(…)");
        if (tensor.device() != q.device())
            refuse(name, "the device is ", tensor.device(), ", but q's is ", q.device(),
                   "; all three must be on one device");
        check_same(name, "the batch size", tensor.size(0), "q", q.size(0));
        check_same(name, "the head dimension", tensor.size(3), "q", q.size(3));
    }
    check_same("v", "the number of heads", v.size(1), "k", k.size(1));
    check_same("v", "the length", v.size(2), "k", k.size(2));
    if (q.size(1) % k.size(1))
        refuse("q", "it has ", q.size(1), " heads and k has ", k.size(1),
               "; the query heads must be a multiple of the key-value heads");
    if (q.size(3) > kMaxHeadDim)
        refuse("q", "the head dimension is ", q.size(3), "; 1 to ", kMaxHeadDim, " are accepted");
    for (const auto& [name, tensor] : {std::pair<const char*, const torch::Tensor&>{"q", q}, {"k", k}}) {
        if (tensor.size(0) > kMaxBatchOrHeads || tensor.size(1) > kMaxBatchOrHeads)
            refuse(name, "the shape is ", tensor.sizes(), "; batch and heads may each be at most ", kMaxBatchOrHeads,
                   ", split the batch");
        if (tensor.size(2) > kMaxLength)
            refuse(name, "the length is ", tensor.size(2), "; at most ", kMaxLength, " is accepted");
    }
    if (options.scale && !std::isfinite(*options.scale))
        refuse("scale", "it is ", *options.scale, "; a finite number is accepted, or none for 1/sqrt(head dimension)");
    if (std::find(masks.begin(), masks.end(), options.mask) == masks.end())
        refuse("mask", "it is ", name_of(options.mask), "; this kernel accepts ", names_of(masks),
               ", phase 4 accepts them all");
}

Mask mask_named(const std::string& name, std::initializer_list<Mask> masks) {
    for (const Mask mask : masks)
        if (name == name_of(mask)) return mask;
    refuse("mask", "it is \"", name, "\"; accepted are ", names_of(masks));
}

void check_shared_memory(const std::string& kernel, std::size_t required_bytes, torch::Device device,
                         const std::string& remedy) {
    const simt::Device limits = device_limits(device);
    if (required_bytes > std::size_t(limits.shared_bytes_per_block_optin))
        throw std::invalid_argument(
            kernel + ": required " + std::to_string(required_bytes) + " bytes of shared memory per block, limit " +
            std::to_string(limits.shared_bytes_per_block_optin) + " bytes on " + limits.name + "; " + remedy);
}

}  // namespace ladder
