#pragma once

#include <type_traits>

#include "common/simt/language/element_type.h"
#include "common/simt/language/float16.h"
#include "common/simt/language/float8.h"

namespace simt {
inline namespace cpu {

/// The type of a product's operands, for what is not a template.
template <class T>
inline constexpr ElementType element_type_of_product = [] {
    static_assert(std::is_same_v<T, f16> || std::is_same_v<T, bf16> || Float8<T>,
                  "wgmma multiplies f16, bf16, e4m3 or e5m2");
    return std::is_same_v<T, f16>    ? ElementType::f16
           : std::is_same_v<T, bf16> ? ElementType::bf16
           : std::is_same_v<T, e4m3> ? ElementType::e4m3
                                     : ElementType::e5m2;
}();

}  // namespace cpu
}  // namespace simt
