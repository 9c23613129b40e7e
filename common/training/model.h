#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/torch/torch.h"

namespace ladder::training {

/// The sizes of a GPT (Radford et al. 2019): what a checkpoint must agree about.
struct ModelSizes {
    std::int64_t layers = 2;     ///< each attends, and then thinks about what it saw
    std::int64_t heads = 2;      ///< of attention, in each layer
    std::int64_t head_dim = 32;  ///< D; a token is heads * D numbers wide
    std::int64_t context = 64;   ///< so many tokens at most does one see

    /// Numbers that stand for a token.
    std::int64_t width() const { return heads * head_dim; }

    /// Whether all are the same.
    friend bool operator==(const ModelSizes&, const ModelSizes&) = default;
};

/// Attention as a layer needs it, causal, bottom-right: q [B, H, n, D], k and v [B, H, m, D] with m >= n.
using Attention = std::function<torch::Tensor(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v)>;

/// That of this repository, by the best of its kernels for the problem.
torch::Tensor own_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v);

/// PyTorch's scaled_dot_product_attention; n and m equal, since it aligns its mask top-left. Throws std::runtime_error
/// where this PyTorch has none.
torch::Tensor pytorch_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v);

/// Keys and values of the tokens so far, so that the next one need not compute them again.
struct KvCache {
    std::vector<torch::Tensor> keys, values;  ///< of each layer, [B, H, context, D]
    std::int64_t length = 0;                  ///< tokens in it
};

/// One part of the weights.
struct Weight {
    std::string name;     ///< "layers.0.attention.in"
    torch::Tensor value;  ///< float32; shows a piece of Gpt::weights(), and its gradient one of Gpt::gradients()
};

/// A small GPT: embeddings of bytes and of places, layers of attention and of two products with a GELU between them,
/// each on what layer_norm gives it and added to what was there, and a last layer_norm; the embedding of bytes is also
/// what logits are made with. Every attention in it is the one that it was given.
class Gpt {
  public:
    /// With weights that depend on the seed alone. `compute` is the type of the products, of queries, keys and values:
    /// float32, or bfloat16 with float32 weights behind it.
    Gpt(const ModelSizes& sizes, std::uint64_t seed, torch::Device device, torch::ScalarType compute,
        Attention attention);

    /// [B, n, 256] float32: what comes after each of `tokens` [B, n] int64. With a cache, tokens come after those in
    /// it, and are added to it. Throws std::invalid_argument for more tokens than the context has.
    torch::Tensor logits(const torch::Tensor& tokens, KvCache* cache = nullptr) const;

    /// A number: the mean of -log p of bytes 1 to n of `text` [B, n + 1], each after those before it.
    torch::Tensor loss(const torch::Tensor& text) const;

    /// An empty one, for `batch` sequences.
    KvCache cache(std::int64_t batch) const;

    /// All weights in one piece, so that an optimizer and a checkpoint need know no more: [N] float32. Matrices come
    /// first, `matrix_elements()` of them; then what is added, and what scales.
    const torch::Tensor& weights() const { return weights_; }
    const torch::Tensor& gradients() const { return gradients_; }
    std::int64_t matrix_elements() const { return matrix_elements_; }

    /// The parts, by name; what it was made of.
    const std::vector<Weight>& parts() const { return parts_; }
    const ModelSizes& sizes() const { return sizes_; }
    torch::Device device() const { return weights_.device(); }

  private:
    const torch::Tensor& part(const std::string& name) const;
    torch::Tensor product(const torch::Tensor& x, const std::string& name) const;
    torch::Tensor normal(const torch::Tensor& x, const std::string& name) const;
    torch::Tensor attended(const torch::Tensor& x, std::int64_t layer, KvCache* cache) const;

    ModelSizes sizes_;
    torch::ScalarType compute_;
    Attention attention_;
    torch::Tensor weights_, gradients_;
    std::int64_t matrix_elements_ = 0;
    std::vector<Weight> parts_;
};

}  // namespace ladder::training
