#pragma once

#include <string>
#include <vector>

#include "common/fuzz/entry.h"
#include "common/torch/torch.h"

namespace ladder::fuzz {

/// A call that an entry must refuse before it launches anything, and what the message must say.
struct BadCall {
    std::string name = {};
    Operands operands = {};
    Problem problem = {};
    std::vector<std::string> mentions = {};
};

/// reference::bad_inputs() under the first of the entry's masks, the masks that it does not take, and bad values of the
/// options that are its own. For softmax, matrices with one thing wrong each.
std::vector<BadCall> bad_calls(const Entry& entry, torch::Device device);

}  // namespace ladder::fuzz
