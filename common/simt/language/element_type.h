#pragma once

#include <cstddef>
#include <string_view>

namespace simt {

/// What the elements of a tensor can be.
enum class ElementType {
    f32,   ///< IEEE binary32
    f16,   ///< IEEE binary16
    bf16,  ///< bfloat16: the upper half of a binary32
    i32,   ///< an integer in two's complement
    e4m3,  ///< 8 bits: 4 of exponent, 3 of mantissa; no infinity
    e5m2,  ///< 8 bits: 5 of exponent, 2 of mantissa
};

/// The size of one element in memory.
constexpr std::size_t element_bytes(ElementType type) {
    switch (type) {
        case ElementType::f32:
        case ElementType::i32:
            return 4;
        case ElementType::f16:
        case ElementType::bf16:
            return 2;
        case ElementType::e4m3:
        case ElementType::e5m2:
            return 1;
    }
    return 0;
}

/// "float32"
constexpr std::string_view name_of(ElementType type) {
    switch (type) {
        case ElementType::f32:
            return "float32";
        case ElementType::f16:
            return "float16";
        case ElementType::bf16:
            return "bfloat16";
        case ElementType::i32:
            return "int32";
        case ElementType::e4m3:
            return "float8_e4m3";
        case ElementType::e5m2:
            return "float8_e5m2";
    }
    return "unknown";
}

}  // namespace simt
