#include "common/simt/matrix/product_arithmetic.h"

#include <array>
#include <cstring>

#include "common/simt/language/float16.h"
#include "common/simt/language/float8.h"

namespace simt {
inline namespace cpu {
namespace {

// GCC's and clang's vectors of four floats, which every processor has that the machine runs on. Left to itself, GCC 12
// keeps one row of D in registers, and waits for each addition before the next.
using Four [[gnu::vector_size(16)]] = float;

Four load(const float* from) {
    Four four;
    std::memcpy(&four, from, sizeof(four));
    return four;
}

/// Four rows of D, eight columns.
void add_block(float* d, const float* a, const float* b, int n, int depth) {
    Four sum[4][2];
    for (int m = 0; m < 4; ++m)
        for (int half = 0; half < 2; ++half) sum[m][half] = load(d + m * n + 4 * half);
    for (int k = 0; k < depth; ++k) {
        const Four left = load(b + k * n), right = load(b + k * n + 4);
        for (int m = 0; m < 4; ++m) {
            const float x = a[m * depth + k];
            const Four xs{x, x, x, x};
            sum[m][0] += xs * left;
            sum[m][1] += xs * right;
        }
    }
    for (int m = 0; m < 4; ++m) std::memcpy(d + m * n, sum[m], sizeof(sum[m]));
}

/// By pieces of 16 bytes: loops of a length that GCC knows it turns into vector instructions at -O2, too.
template <class T>
void convert(const void* bits, std::size_t count, float* values) {
    constexpr std::size_t piece = 16 / sizeof(T);
    for (std::size_t done = 0; done < count; done += piece) {
        T element[piece];
        std::memcpy(element, static_cast<const std::byte*>(bits) + done * sizeof(T), sizeof(element));
        for (std::size_t i = 0; i < piece; ++i) values[done + i] = float(element[i]);
    }
}

/// Of 256 codes a table holds the values.
template <class T>
void look_up(const void* bits, std::size_t count, float* values) {
    static const std::array<float, 256> value = [] {
        std::array<float, 256> all;
        for (unsigned code = 0; code < 256; ++code) all[code] = float(T::from_bits(std::uint8_t(code)));
        return all;
    }();
    for (std::size_t i = 0; i < count; ++i) values[i] = value[static_cast<const unsigned char*>(bits)[i]];
}

}  // namespace

void convert_elements(ElementType type, const void* bits, std::size_t count, float* values) {
    switch (type) {
        case ElementType::f16:
            return convert<f16>(bits, count, values);
        case ElementType::bf16:
            return convert<bf16>(bits, count, values);
        case ElementType::e4m3:
            return look_up<e4m3>(bits, count, values);
        case ElementType::e5m2:
            return look_up<e5m2>(bits, count, values);
        case ElementType::f32:
        case ElementType::i32:
            return;  // of which there are no products
    }
}

void add_product(float* d, const float* a, const float* b, int n, int depth) {
    for (int m = 0; m < kProductRows; m += 4)
        for (int column = 0; column < n; column += 8)
            add_block(d + m * n + column, a + m * depth, b + column, n, depth);
}

}  // namespace cpu
}  // namespace simt
