#include "common/training/model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "common/attention/attention.h"
#include "common/training/corpus.h"

namespace ladder::training {
namespace {

constexpr double kSpread = 0.02;    // of fresh weights (Radford et al. 2019)
constexpr std::int64_t kInner = 4;  // a layer thinks in so many times the width

struct Shape {
    std::string name;
    std::vector<std::int64_t> sizes;
    double spread;  // standard deviation of fresh weights; all are `start` where it is 0
    double start;
};

std::string layer_name(std::int64_t layer, const char* what) { return "layers." + std::to_string(layer) + "." + what; }

/// Matrices, then vectors.
std::vector<Shape> shapes_of(const ModelSizes& s) {
    const std::int64_t width = s.width();
    // What a layer adds to the tokens is made smaller, the more layers add to it.
    const double added = kSpread / std::sqrt(2.0 * double(s.layers));
    std::vector<Shape> shapes = {{"bytes", {kVocabulary, width}, kSpread, 0},
                                 {"places", {s.context, width}, kSpread, 0}};
    for (std::int64_t i = 0; i < s.layers; ++i) {
        shapes.push_back({layer_name(i, "attention.in"), {3 * width, width}, kSpread, 0});
        shapes.push_back({layer_name(i, "attention.out"), {width, width}, added, 0});
        shapes.push_back({layer_name(i, "thought.in"), {kInner * width, width}, kSpread, 0});
        shapes.push_back({layer_name(i, "thought.out"), {width, kInner * width}, added, 0});
    }
    const auto add_normal = [&](const std::string& name) {
        shapes.push_back({name + ".scale", {width}, 0, 1});
        shapes.push_back({name + ".shift", {width}, 0, 0});
    };
    for (std::int64_t i = 0; i < s.layers; ++i) {
        add_normal(layer_name(i, "attention.normal"));
        add_normal(layer_name(i, "thought.normal"));
    }
    add_normal("last.normal");
    return shapes;
}

std::int64_t elements(const Shape& shape) {
    std::int64_t product = 1;
    for (const std::int64_t size : shape.sizes) product *= size;
    return product;
}

void check_sizes(const ModelSizes& s) {
    if (s.layers < 1 || s.heads < 1 || s.head_dim < 1 || s.context < 1)
        throw std::invalid_argument("model: it has " + std::to_string(s.layers) + " layers, " +
                                    std::to_string(s.heads) + " heads of dimension " + std::to_string(s.head_dim) +
                                    " and a context of " + std::to_string(s.context) + "; all must be at least 1");
}

}  // namespace

torch::Tensor own_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
    return attention(q, k, v, {.scale = {}, .mask = Mask::causal_bottom_right});
}

torch::Tensor pytorch_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
    static const auto found = [] {
        auto& dispatcher = c10::Dispatcher::singleton();
        auto op = dispatcher.findSchema({"aten::scaled_dot_product_attention", ""});  // since PyTorch 2.0
        return op ? op : dispatcher.findSchema({"aten::_scaled_dot_product_attention", ""});
    }();
    if (!found) throw std::runtime_error("training: this PyTorch has no scaled_dot_product_attention to compare with");
    std::vector<c10::IValue> stack;
    for (const c10::Argument& argument : found->schema().arguments())
        stack.push_back(argument.name() == "is_causal" ? c10::IValue(true)
                        : argument.default_value()     ? *argument.default_value()
                                                       : c10::IValue());
    stack[0] = q;
    stack[1] = k;
    stack[2] = v;
    found->callBoxed(&stack);
    return stack.front().toTensor();
}

Gpt::Gpt(const ModelSizes& sizes, std::uint64_t seed, torch::Device device, torch::ScalarType compute,
         Attention attention)
    : sizes_(sizes), compute_(compute), attention_(std::move(attention)) {
    check_sizes(sizes);
    const std::vector<Shape> shapes = shapes_of(sizes);
    at::Generator generator = at::detail::createCPUGenerator(seed);
    std::vector<torch::Tensor> fresh;
    for (const Shape& shape : shapes) {
        const std::int64_t count = elements(shape);
        fresh.push_back(shape.spread > 0 ? at::randn({count}, generator, at::kFloat) * shape.spread
                                         : at::full({count}, shape.start, at::kFloat));
        if (shape.sizes.size() == 2) matrix_elements_ += count;
    }
    weights_ = at::concat(fresh).to(device);
    gradients_ = at::zeros_like(weights_);
    std::int64_t begin = 0;
    for (const Shape& shape : shapes) {
        torch::Tensor value = weights_.narrow(0, begin, elements(shape)).view(shape.sizes).detach();
        value.requires_grad_();
        value.mutable_grad() = gradients_.narrow(0, begin, elements(shape)).view(shape.sizes);
        parts_.push_back({shape.name, value});
        begin += elements(shape);
    }
}

const torch::Tensor& Gpt::part(const std::string& name) const {
    return std::ranges::find(parts_, name, &Weight::name)->value;
}

torch::Tensor Gpt::product(const torch::Tensor& x, const std::string& name) const {
    return at::linear(x.to(compute_), part(name).to(compute_));
}

torch::Tensor Gpt::normal(const torch::Tensor& x, const std::string& name) const {
    return at::layer_norm(x, {sizes_.width()}, part(name + ".scale"), part(name + ".shift"));
}

torch::Tensor Gpt::attended(const torch::Tensor& x, std::int64_t layer, KvCache* cache) const {
    const std::int64_t batch = x.size(0), length = x.size(1);
    // [B, n, 3 H D] -> 3 of [B, H, n, D], rows of a head between those of the others: no copy.
    const torch::Tensor all = product(x, layer_name(layer, "attention.in"))
                                  .view({batch, length, 3, sizes_.heads, sizes_.head_dim})
                                  .permute({2, 0, 3, 1, 4});
    torch::Tensor q = all.select(0, 0), k = all.select(0, 1), v = all.select(0, 2);
    if (cache) {
        torch::Tensor &keys = cache->keys[std::size_t(layer)], &values = cache->values[std::size_t(layer)];
        keys.narrow(2, cache->length, length).copy_(k);
        values.narrow(2, cache->length, length).copy_(v);
        k = keys.narrow(2, 0, cache->length + length);
        v = values.narrow(2, 0, cache->length + length);
    }
    const torch::Tensor mixed = attention_(q, k, v).transpose(1, 2).reshape({batch, length, sizes_.width()});
    return product(mixed, layer_name(layer, "attention.out"));
}

torch::Tensor Gpt::logits(const torch::Tensor& tokens, KvCache* cache) const {
    const std::int64_t length = tokens.size(1), before = cache ? cache->length : 0;
    if (before + length > sizes_.context)
        throw std::invalid_argument("model: there are " + std::to_string(before + length) +
                                    " tokens, and the context has room for " + std::to_string(sizes_.context));
    torch::Tensor x = at::embedding(part("bytes"), tokens) + part("places").narrow(0, before, length);
    for (std::int64_t i = 0; i < sizes_.layers; ++i) {
        x = x + attended(normal(x, layer_name(i, "attention.normal")), i, cache);
        const torch::Tensor inner = product(normal(x, layer_name(i, "thought.normal")), layer_name(i, "thought.in"));
        x = x + product(at::gelu(inner), layer_name(i, "thought.out"));
    }
    if (cache) cache->length += length;
    return product(normal(x, "last.normal"), "bytes").to(at::kFloat);
}

torch::Tensor Gpt::loss(const torch::Tensor& text) const {
    const std::int64_t length = text.size(1) - 1;
    const torch::Tensor given = text.narrow(1, 0, length), next = text.narrow(1, 1, length);
    return at::cross_entropy_loss(logits(given).flatten(0, 1), next.flatten());
}

KvCache Gpt::cache(std::int64_t batch) const {
    KvCache cache;
    const auto options = weights_.options().dtype(compute_);
    for (std::int64_t i = 0; i < sizes_.layers; ++i)
        for (auto* half : {&cache.keys, &cache.values})
            half->push_back(at::zeros({batch, sizes_.heads, sizes_.context, sizes_.head_dim}, options));
    return cache;
}

}  // namespace ladder::training
