#include "common/training/generate.h"

#include <algorithm>
#include <stdexcept>

#include "common/training/draw.h"

namespace ladder::training {
namespace {

torch::Tensor tokens_of(std::string_view text, torch::Device device) {
    const torch::Tensor bytes = at::empty({1, std::int64_t(text.size())}, at::kByte);
    std::ranges::copy(text, static_cast<char*>(bytes.data_ptr()));
    return bytes.to(device, at::kLong);
}

/// One byte, from logits [256].
char chosen(const torch::Tensor& logits, double temperature, double fraction) {
    if (temperature == 0) return char(logits.argmax().item<std::int64_t>());
    const torch::Tensor sums = at::softmax(logits.cpu().to(at::kDouble) / temperature, 0).cumsum(0);
    const auto* first = sums.data_ptr<double>();
    const auto* found = std::upper_bound(first, first + sums.numel(), fraction * first[sums.numel() - 1]);
    return char(std::min<std::int64_t>(found - first, sums.numel() - 1));
}

/// So many bytes does a character take that begins with this one; 0 if none does.
std::size_t length_by(unsigned char first) {
    if (first < 0x80) return 1;
    if (first >= 0xC2 && first < 0xE0) return 2;
    if (first >= 0xE0 && first < 0xF0) return 3;
    return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

}  // namespace

std::string continued(const Gpt& model, std::string_view prompt, const Sampling& sampling,
                      const std::function<void(char)>& each) {
    if (prompt.empty()) throw std::invalid_argument("generate: the text to go on from is empty; give a few words");
    if (!(sampling.temperature >= 0))
        throw std::invalid_argument("generate: the temperature is " + std::to_string(sampling.temperature) +
                                    "; 0 and more is accepted");
    const at::NoGradGuard no_gradients;
    const auto context = std::size_t(model.sizes().context);
    std::string result;
    std::string seen(prompt.substr(prompt.size() - std::min(prompt.size(), context)));  // what the model looks at
    std::size_t read = 0;                                                               // so much of it is in the cache
    KvCache cache = model.cache(1);
    for (std::int64_t i = 0; i < sampling.bytes; ++i) {
        if (seen.size() > context) {
            seen.erase(0, seen.size() - std::max<std::size_t>(1, context / 2));
            cache.length = 0;
            read = 0;
        }
        if (!sampling.cached) read = 0;
        const std::string_view unread = std::string_view(seen).substr(read);
        const torch::Tensor logits =
            model.logits(tokens_of(unread, model.device()), sampling.cached ? &cache : nullptr);
        read = seen.size();
        const char next = chosen(logits[0][-1], sampling.temperature, drawn_fraction(sampling.seed, std::uint64_t(i)));
        result += next;
        seen += next;
        if (each) each(next);
    }
    return result;
}

std::string readable(std::string_view bytes) {
    std::string result;
    for (std::size_t i = 0; i < bytes.size();) {
        const std::size_t length = length_by(static_cast<unsigned char>(bytes[i]));
        bool whole = length > 0 && i + length <= bytes.size();
        for (std::size_t j = 1; whole && j < length; ++j) whole = (bytes[i + j] & 0xC0) == 0x80;
        const bool control =
            length == 1 && static_cast<unsigned char>(bytes[i]) < 0x20 && bytes[i] != '\n' && bytes[i] != '\t';
        if (whole && !control)
            result += bytes.substr(i, length);
        else
            result += "\xEF\xBF\xBD";
        i += whole ? length : 1;
    }
    return result;
}

}  // namespace ladder::training
