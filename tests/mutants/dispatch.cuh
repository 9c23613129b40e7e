#pragma once

// In the place of common/attention/dispatch.cuh: mutants are compiled for one element type and one head dimension, so
// that thirty of them do not cost thirty times what a phase costs.

#include <stdexcept>
#include <type_traits>

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

template <class Use>
void with_element_type(simt::ElementType type, Use&& use) {
    if (type != simt::ElementType::f32) throw std::invalid_argument("mutants are compiled for float32 only");
    use(std::type_identity<float>());
}

template <class Use>
void with_head_dim(std::int64_t head_dim, Use&& use) {
    if (head_dim > 32) throw std::invalid_argument("mutants are compiled for head dimensions up to 32 only");
    use(std::integral_constant<int, 32>());
}

inline unsigned ceil_div(std::int64_t a, std::int64_t b) { return unsigned((a + b - 1) / b); }

}  // namespace ladder::SIMT_MACHINE
