#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/training/model.h"

namespace ladder::training {

/// How text is continued.
struct Sampling {
    std::int64_t bytes = 400;  ///< so many more
    double temperature = 0.7;  ///< what logits are divided by: 0 takes the likeliest byte, 1 draws as the model says
    std::uint64_t seed = 0;    ///< of what is drawn
    bool cached = true;        ///< keys and values are kept; without, each byte reads the whole text again
};

/// Continues `prompt`, a byte at a time, and returns what came after it. Keys and values of the text so far stay in a
/// cache, so that a byte costs one query. Where the context is full, the model goes on with the second half of it.
/// `each` sees the bytes as they come. Throws std::invalid_argument for an empty prompt and a negative temperature.
std::string continued(const Gpt& model, std::string_view prompt, const Sampling& sampling = {},
                      const std::function<void(char)>& each = {});

/// The same bytes, with U+FFFD in the place of those that are no UTF-8.
std::string readable(std::string_view bytes);

}  // namespace ladder::training
