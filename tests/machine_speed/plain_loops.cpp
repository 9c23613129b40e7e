#include "tests/machine_speed/plain_loops.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/simt/language/float16.h"

namespace ladder::plain {
namespace {

constexpr int kHeadDim = 64;

template <class Use>
void with_element_type(simt::ElementType type, Use&& use) {
    switch (type) {
        case simt::ElementType::f32:
            return use(float{});
        case simt::ElementType::f16:
            return use(simt::f16{});
        case simt::ElementType::bf16:
            return use(simt::bf16{});
        case simt::ElementType::i32:
        case simt::ElementType::e4m3:
        case simt::ElementType::e5m2:
            throw std::invalid_argument(std::string(name_of(type)) + ": no loop is compiled for it");
    }
}

/// As common/attention/online_softmax.cuh has it.
float safe_maximum(float m) { return std::abs(m) == INFINITY ? 0.0f : m; }

/// The rows of one head: [length, kHeadDim].
template <class T>
T* head(const simt::TensorArgument& tensor, std::int64_t b, std::int64_t h) {
    return static_cast<T*>(tensor.data) + b * tensor.strides[0] + h * tensor.strides[1];
}

/// Rows [first, first + rows) of one head's O and LSE, tile by tile of B_c keys.
template <int B_r, int B_c, class T>
void attend(const T* q, const T* k, const T* v, int rows, int keys, float scale, T* out, float* lse) {
    float S[B_r][B_c], O[B_r][kHeadDim] = {}, m[B_r], l[B_r] = {};
    std::fill_n(m, rows, -INFINITY);
    for (int first = 0; first < keys; first += B_c) {
        const int columns = std::min(B_c, keys - first);
        for (int i = 0; i < rows; ++i) {
            float m_new = m[i];
            for (int j = 0; j < columns; ++j) {
                float sum = 0.0f;
                for (int d = 0; d < kHeadDim; ++d)
                    sum += float(q[i * kHeadDim + d]) * float(k[(first + j) * kHeadDim + d]);
                S[i][j] = sum * scale;
                m_new = std::fmax(m_new, S[i][j]);
            }
            const float m_safe = safe_maximum(m_new), rescale = std::exp(m[i] - m_safe);
            float l_tile = 0.0f;
            for (int j = 0; j < columns; ++j) l_tile += S[i][j] = std::exp(S[i][j] - m_safe);
            m[i] = m_new;
            l[i] = rescale * l[i] + l_tile;
            for (int c = 0; c < kHeadDim; ++c) O[i][c] *= rescale;
        }
        for (int i = 0; i < rows; ++i)
            for (int j = 0; j < columns; ++j)
                for (int c = 0; c < kHeadDim; ++c) O[i][c] += S[i][j] * float(v[(first + j) * kHeadDim + c]);
    }
    for (int i = 0; i < rows; ++i) {
        for (int c = 0; c < kHeadDim; ++c) out[i * kHeadDim + c] = T(O[i][c] / l[i]);
        lse[i] = m[i] + std::log(l[i]);
    }
}

template <int B_r, int B_c>
void attend_all(const AttentionArguments& a) {
    if (a.head_dim() != kHeadDim) throw std::invalid_argument("the plain loops are written for head dimension 64");
    with_element_type(a.q.type, [&]<class T>(T) {
        const std::int64_t group = a.query_heads() / a.kv_heads(), length = a.query_length();
        auto* lse = static_cast<float*>(a.lse.data);
        auto* out = static_cast<T*>(a.out.data);
        for (std::int64_t b = 0; b < a.batch(); ++b)
            for (std::int64_t h = 0; h < a.query_heads(); ++h)
                for (std::int64_t first = 0; first < length; first += B_r) {
                    const std::int64_t row = (b * a.query_heads() + h) * length + first;
                    attend<B_r, B_c>(head<const T>(a.q, b, h) + first * kHeadDim, head<const T>(a.k, b, h / group),
                                     head<const T>(a.v, b, h / group), int(std::min<std::int64_t>(B_r, length - first)),
                                     int(a.key_length()), a.scale, out + row * kHeadDim, lse + row);
                }
    });
}

}  // namespace

void attention(const AttentionArguments& a) { attend_all<64, 32>(a); }

void decode(const AttentionArguments& a) { attend_all<1, 32>(a); }

void softmax(const SoftmaxArguments& a) {
    with_element_type(a.x.type, [&]<class T>(T) {
        for (std::int64_t row = 0; row < a.rows(); ++row) {
            const T* x = static_cast<const T*>(a.x.data) + row * a.columns();
            T* y = static_cast<T*>(a.y.data) + row * a.columns();
            float m = -INFINITY, l = 0.0f;
            for (std::int64_t j = 0; j < a.columns(); ++j) {
                const float m_new = std::fmax(m, float(x[j])), base = safe_maximum(m_new);
                l = l * std::exp(m - base) + std::exp(float(x[j]) - base);
                m = m_new;
            }
            const float base = safe_maximum(m), inverse_sum = 1.0f / l;
            for (std::int64_t j = 0; j < a.columns(); ++j) y[j] = T(std::exp(float(x[j]) - base) * inverse_sum);
        }
    });
}

}  // namespace ladder::plain
