#pragma once

// In the place of common/attention/dispatch.cuh: a mutant is compiled for one head dimension (for register tiles,
// kCompiledWideHeadDim) and one element type, CompiledElement; generate.py writes both above it. So thirty of them do
// not cost thirty times what a phase costs.

#include <stdexcept>
#include <type_traits>

#include "common/attention/arguments.h"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

template <class Use>
void with_element_type(simt::ElementType type, Use&& use) {
    if (type != kCompiledElement) throw std::logic_error("this mutant is compiled for another element type");
    use(std::type_identity<CompiledElement>());
}

template <class Use>
void with_head_dim(std::int64_t head_dim, Use&& use) {
    if (head_dim > 32) throw std::logic_error("mutants are compiled for head dimensions up to 32 only");
    use(std::integral_constant<int, 32>());
}

template <class Use>
void with_tiled_head_dim(std::int64_t head_dim, Use&& use) {
    if (head_dim > kCompiledWideHeadDim) throw std::logic_error("this mutant is compiled for smaller head dimensions");
    use(std::integral_constant<int, kCompiledWideHeadDim>());
}

template <class Use>
void with_register_tiles(const AttentionArguments& a, Use&& use) {
    if (a.head_dim() > kCompiledWideHeadDim)
        throw std::logic_error("this mutant is compiled for smaller head dimensions");
    use(std::integral_constant<int, kCompiledWideHeadDim == 32 ? 128 : 64>(),
        std::integral_constant<int, kCompiledWideHeadDim>());
}

inline unsigned ceil_div(std::int64_t a, std::int64_t b) { return unsigned((a + b - 1) / b); }

}  // namespace ladder::SIMT_MACHINE
