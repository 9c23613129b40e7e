#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/classroom/judge/attend.h"

namespace ladder::classroom {

/// The mistakes that lookalike() knows, each named after an entry of the catalogue of wrong kernels (tests/mutants),
/// "phase3_fa2/l_not_rescaled", or after a mistake in a phase's exercises.toml, "phase3_fa2/exercises/no_cap".
std::vector<std::string_view> lookalikes();

/// The known mistake that gives this very result, if there is one: each is computed in float64 from the same inputs,
/// and the learner's result must agree with it as a right result would with the right one.
///
/// @param q, k, v        as the learner's kernel got them
/// @param keys_per_tile  B_c of the kernel: many mistakes show only from the second tile on
std::optional<std::string_view> lookalike(const Attended& result, const torch::Tensor& q, const torch::Tensor& k,
                                          const torch::Tensor& v, const Form& form, int64_t keys_per_tile);

}  // namespace ladder::classroom
