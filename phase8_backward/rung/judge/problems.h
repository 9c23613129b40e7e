#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "common/attention/gradients.h"
#include "common/classroom/judge/parts.h"
#include "common/reference/gradient_cases.h"

namespace ladder::classroom::phase8_backward {

/// Gradients of attention.
ProblemKind backward_problems();

/// Which gradients are wrong, in this order: dV, dK, dQ.
struct WrongGradients {
    bool dv = false, dk = false, dq = false;
};

/// The known mistake that gives these wrong gradients, if there is one. `with_dlse`: the loss looks at LSE.
std::optional<std::string_view> known_wrong_gradients(const reference::BackwardInputs& inputs, bool with_dlse,
                                                      const AttentionGradients& got, const WrongGradients& wrong);

/// The names of all of them.
std::vector<std::string_view> gradient_mistakes();

}  // namespace ladder::classroom::phase8_backward
