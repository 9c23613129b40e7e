#include "common/reference/call_memory.h"

#include <limits>

namespace ladder::reference {
namespace {

torch::ScalarType integer_of(const torch::Tensor& tensor) {
    const auto item_size = tensor.element_size();
    return item_size == 2 ? torch::kInt16 : item_size == 4 ? torch::kInt32 : torch::kInt64;
}

/// Everything in a tensor's memory as integers, gaps between rows included: bits compare equal even where they are NaN.
torch::Tensor memory_bits(const torch::Tensor& tensor) {
    const auto items = static_cast<int64_t>(tensor.storage().nbytes()) / static_cast<int64_t>(tensor.element_size());
    const auto memory = at::empty({0}, tensor.options()).set_(tensor.storage(), 0, {items}, {1});
    return memory.view(integer_of(tensor));
}

}  // namespace

MemoryWatch::MemoryWatch(std::vector<std::pair<std::string, torch::Tensor>> tensors) {
    for (auto& [name, tensor] : tensors) watched_.push_back({std::move(name), tensor, memory_bits(tensor).clone()});
}

std::vector<std::string> MemoryWatch::written() const {
    std::vector<std::string> names;
    for (const auto& [name, tensor, before] : watched_)
        if (!at::equal(before, memory_bits(tensor))) names.push_back(name);
    return names;
}

bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
    const auto bits = [](const torch::Tensor& x) { return x.contiguous().view(integer_of(x)); };
    return a.scalar_type() == b.scalar_type() && at::equal(bits(a), bits(b));
}

void poison_past_lengths(AttentionInputs& inputs, const torch::Tensor& kv_lengths) {
    const auto lengths = kv_lengths.cpu();
    const auto longest = lengths.max().item<int64_t>();
    for (int64_t b = 0; b < inputs.k.size(0); ++b) {
        for (const auto& cache : {inputs.k, inputs.v}) {
            // Where all sequences share their memory, what is beyond one's end may be another's.
            const auto length = cache.stride(0) == 0 ? longest : lengths[b].item<int64_t>();
            cache[b].narrow(1, length, cache.size(2) - length).fill_(std::numeric_limits<double>::quiet_NaN());
        }
    }
}

std::string message_of(const std::exception& error) {
    const auto* from_torch = dynamic_cast<const c10::Error*>(&error);
    return from_torch ? from_torch->what_without_backtrace() : error.what();
}

}  // namespace ladder::reference
