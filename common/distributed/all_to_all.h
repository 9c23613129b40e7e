#pragma once

#include <cstdint>
#include <vector>

#include "common/distributed/group.h"

namespace ladder::distributed {

/// Gives `given[r]` to rank r, and returns what each rank gave, of which that of rank r has the sizes `sizes[r]`. Each
/// rank sends to all others at once. Throws RankError.
std::vector<torch::Tensor> all_to_all(const Group& group, const std::vector<torch::Tensor>& given,
                                      const std::vector<std::vector<std::int64_t>>& sizes);

}  // namespace ladder::distributed
