#include "common/simt/machine/half_full_barriers.h"

namespace simt {
inline namespace cpu {

HalfFullBarriers::HalfFullBarriers() = default;
HalfFullBarriers::~HalfFullBarriers() = default;

void HalfFullBarriers::note_left(int number, std::uint64_t block, MachineError::Report&& report) {
    const std::scoped_lock lock(mutex_);
    const auto [left, is_first] = left_.try_emplace(number, block, report);
    if (!is_first && block < left->second.first) left->second = {block, std::move(report)};
}

std::optional<MachineError::Report> HalfFullBarriers::mistake() const {
    for (const auto& [number, left] : left_)
        if (!(opened_ >> number & 1)) return left.second;
    return std::nullopt;
}

}  // namespace cpu
}  // namespace simt
