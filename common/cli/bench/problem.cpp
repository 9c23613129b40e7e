#include "common/cli/bench/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace ladder::cli::bench {
namespace {

constexpr double kFlopsPerSoftmaxElement = 5;

constexpr std::pair<torch::ScalarType, const char*> kDtypes[] = {
    {torch::kFloat32, "f32"}, {torch::kFloat16, "f16"}, {torch::kBFloat16, "bf16"}};

std::string heads_of(const Problem& p) {
    return p.kv_heads == p.query_heads ? fmt::format("H{}", p.query_heads)
                                       : fmt::format("H{}/{}", p.query_heads, p.kv_heads);
}

}  // namespace

std::int64_t visible_pairs(const Problem& p) {
    if (p.mask == Mask::none) return p.queries * p.keys;
    const std::int64_t offset = p.mask == Mask::causal_bottom_right ? p.keys - p.queries : 0;
    std::int64_t pairs = 0;
    for (std::int64_t i = 0; i < p.queries; ++i) pairs += std::clamp<std::int64_t>(i + offset + 1, 0, p.keys);
    return pairs;
}

double useful_flops(const Problem& p) {
    if (p.work == Work::softmax) return kFlopsPerSoftmaxElement * double(p.queries) * double(p.keys);
    const double products = p.work == Work::backward ? 5 : 2;
    return 2 * products * double(p.batch * p.query_heads) * double(visible_pairs(p)) * double(p.head_dim);
}

double useful_bytes(const Problem& p) {
    const double element = double(c10::elementSize(p.dtype));
    if (p.work == Work::softmax) return 2 * element * double(p.queries) * double(p.keys);
    const double passes = p.work == Work::backward ? 2 : 1;
    return passes * 2 * element * double(p.batch * p.kv_heads) * double(p.keys) * double(p.head_dim);
}

std::string short_name(torch::ScalarType dtype) {
    for (const auto& [type, name] : kDtypes)
        if (type == dtype) return name;
    throw std::invalid_argument(fmt::format("no kernel takes dtype {}; f32, f16 and bf16 are taken", toString(dtype)));
}

torch::ScalarType dtype_named(const std::string& text) {
    for (const auto& [type, name] : kDtypes)
        if (text == name) return type;
    throw std::invalid_argument(fmt::format("\"{}\" is no dtype of a kernel; f32, f16 and bf16 are", text));
}

std::string text_of(const Problem& p) {
    const std::string type = short_name(p.dtype);
    if (p.work == Work::softmax) return fmt::format("{} {}x{}", type, p.queries, p.keys);
    const std::string length =
        p.queries == p.keys ? fmt::format("N{}", p.keys) : fmt::format("{}x{}", p.queries, p.keys);
    std::string text = fmt::format("{} B{} {} {} D{}", type, p.batch, heads_of(p), length, p.head_dim);
    if (p.mask != Mask::none) text += " causal";
    if (p.work == Work::backward) text += " bwd";
    if (p.splits) text += fmt::format(" s{}", *p.splits);
    return text;
}

}  // namespace ladder::cli::bench
