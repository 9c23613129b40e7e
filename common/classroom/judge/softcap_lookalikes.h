#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "common/classroom/judge/attend.h"

namespace ladder::classroom {

/// The mistakes that softcap_lookalike() knows, as mistakes in phase 3's exercises.toml.
std::vector<std::string_view> softcap_lookalikes();

/// As lookalike(), for problems whose scores are capped: `form.softcap` has a value, and there is no mask.
std::optional<std::string_view> softcap_lookalike(const Attended& result, const torch::Tensor& q,
                                                  const torch::Tensor& k, const torch::Tensor& v, const Form& form,
                                                  int64_t keys_per_tile);

}  // namespace ladder::classroom
