#include "phase8_backward/backward_check.h"

#include <sstream>
#include <stdexcept>

#include "common/attention/check.h"

namespace ladder {
namespace {

template <class... Part>
[[noreturn]] void refuse(const char* name, const Part&... part) {
    std::ostringstream message;
    message << name << ": ";
    (message << ... << part);
    throw std::invalid_argument(message.str());
}

/// A tensor beside q, k and v: it must lie with q, and have this shape and dtype.
void check_beside(const char* name, const torch::Tensor& tensor, const torch::Tensor& q, at::IntArrayRef sizes,
                  torch::ScalarType dtype) {
    check_tensor(name, tensor, int64_t(sizes.size()));
    if (tensor.sizes() != sizes) refuse(name, "the shape is ", tensor.sizes(), "; for this q it must be ", sizes);
    if (tensor.scalar_type() != dtype)
        refuse(name, "the dtype is ", tensor.scalar_type(), "; for this q it must be ", dtype, ", convert with .to(…)");
    if (tensor.device() != q.device())
        refuse(name, "the device is ", tensor.device(), ", but q's is ", q.device(), "; all must be on one device");
}

void check_gather(DqGather gather) {
    if (gather != DqGather::second_pass && gather != DqGather::atomics)
        refuse("gather", "it is ", int(gather), "; second_pass and atomics are accepted");
}

}  // namespace

void check_backward(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const torch::Tensor& out, const torch::Tensor& lse, const AttentionOptions& options,
                    const BackwardOptions& backward_options, const std::optional<torch::Tensor>& dlse) {
    check_attention(q, k, v, options, kBackwardMasks);
    check_beside("dout", dout, q, q.sizes(), q.scalar_type());
    check_beside("out", out, q, q.sizes(), q.scalar_type());
    check_beside("lse", lse, q, q.sizes().slice(0, 3), torch::kFloat32);
    if (dlse) check_beside("dlse", *dlse, q, q.sizes().slice(0, 3), torch::kFloat32);
    check_gather(backward_options.gather);
}

void check_backward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const AttentionOptions& options, const BackwardOptions& backward_options) {
    check_attention(q, k, v, options, kBackwardMasks);
    check_gather(backward_options.gather);
}

GlobalBytes bytes_together(std::initializer_list<GlobalBytes> parts) {
    GlobalBytes all;
    for (const GlobalBytes& part : parts) {
        all.read += part.read;
        all.written += part.written;
    }
    return all;
}

}  // namespace ladder
