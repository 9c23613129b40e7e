#pragma once

#include "common/attention/arguments.h"
#include "common/attention/dispatch.cuh"
#include "common/attention/forward_tensors.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/warp_reduce.cuh"
#include "common/attention/watch.cuh"
#include "phase0_softmax/softmax_state.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// Attention in one pass over the keys: what every later phase grows from (Rabe and Staats 2021, section 2).
///
/// softmax(x) needs a second pass because each output element waits for the row's l. Attention does not want those
/// elements, only the sum of v_j weighted by them, and a sum can be corrected like l itself. So (m, l) gains a third
/// member, the unscaled output o, and one look at each key is enough:
///
///   s = scale q . k_j        m' = max(m, s)
///   l' = e^(m - m') l + e^(s - m')
///   o' = e^(m - m') o + e^(s - m') v_j          at the end: out = o / l, lse = m + log l
///
/// A sum over thousands of keys would lose its last digits (kTermsPerPart). So each 64 keys get a triple (m, l, o) of
/// their own, and the triples merge.
///
///   grid    x = ceil(Sq / 4), y = Hq heads, z = B sequences
///   block   128 threads = 4 warps; each warp owns one query row, and its lanes share the head dimension:
///           lane k holds columns [k W, (k + 1) W) of q and o, then 32 W further on, …
///           W elements are what one lane reads at once: up to 16 bytes where the rows allow, else one
///   shared  nothing; a dot product is summed over the lanes by shuffles
///   global  reads Q once, and K and V once for each query row; writes O and LSE once
// clang-format on

inline constexpr int kQueriesPerBlock = 4;  ///< one warp for each

/// The part of a row of D elements that one lane holds: D / 32 of them, in vectors of W neighbours.
template <class T, int D, int W>
struct LaneColumns {
    static constexpr int count = D / 32;  ///< columns of a lane
    using Vector = simt::Vector<T, W>;    ///< columns that it moves at once

    /// The first column of vector n.
    __device__ static int column(int n) { return (n * 32 + int(threadIdx.x) % 32) * W; }

    /// Columns beyond the width of the matrix become zero, which adds nothing to a dot product.
    __device__ __forceinline__ static void read(float (&x)[count], const simt::GlobalTensor<const T, 2>& matrix,
                                                int row) {
#pragma unroll
        for (int n = 0; n < count / W; ++n) {
            Vector elements{};
            if (column(n) < matrix.extent(1)) elements = matrix.template vec<Vector>(row, column(n));
#pragma unroll
            for (int e = 0; e < W; ++e) x[n * W + e] = float(elements.element[e]);
        }
    }

    /// Columns beyond the width of the matrix are left out.
    __device__ __forceinline__ static void write(const simt::GlobalTensor<T, 2>& matrix, int row,
                                                 const float (&x)[count]) {
#pragma unroll
        for (int n = 0; n < count / W; ++n) {
            Vector elements;
#pragma unroll
            for (int e = 0; e < W; ++e) elements.element[e] = T(x[n * W + e]);
            if (column(n) < matrix.extent(1)) matrix.template vec<Vector>(row, column(n)) = elements;
        }
    }
};

template <class T, int D, int W>
__global__ void __launch_bounds__(32 * kQueriesPerBlock) online_attention_kernel(ForwardTensors<T> t) {
    using Columns = LaneColumns<T, D, W>;
    const int b = blockIdx.z, h = blockIdx.y;
    const int query = int(blockIdx.x) * kQueriesPerBlock + int(threadIdx.x) / 32;
    const auto Q = t.Q.slice(b, h);
    const auto K = t.K.slice(b, t.kv_head(h));
    const auto V = t.V.slice(b, t.kv_head(h));
    const int key_length = int(K.extent(0));
    if (query >= Q.extent(0)) return;  // all 32 lanes alike, so no shuffle below misses one

    float q[Columns::count];
    Columns::read(q, Q, query);

    float m = -INFINITY, l = 0.0f, o[Columns::count] = {};
    for (int first = 0; first < key_length; first += kTermsPerPart) {
        const int end = first + kTermsPerPart < key_length ? first + kTermsPerPart : key_length;
        float m_part = -INFINITY, l_part = 0.0f, o_part[Columns::count] = {};
        for (int j = first; j < end; ++j) {
            float k[Columns::count], v[Columns::count];
            Columns::read(k, K, j);
            Columns::read(v, V, j);

            float dot = 0.0f;
#pragma unroll
            for (int c = 0; c < Columns::count; ++c) dot += q[c] * k[c];
            const float s = t.scale * warp_sum(dot);

            // BEGIN SOLUTION update: the key joins m_part, l_part and o_part
            const float m_new = fmaxf(m_part, s);
            const float m_safe = safe_maximum(m_new);
            const float rescale = __expf(m_part - m_safe);  // what the old sums are worth under the new maximum
            const float p = __expf(s - m_safe);
            m_part = m_new;
            l_part = rescale * l_part + p;
            watch_score(query, j, s);
            watch_state(query, m_part, l_part);
            watch_rescale(query, rescale);
#pragma unroll
            for (int c = 0; c < Columns::count; ++c) o_part[c] = rescale * o_part[c] + p * v[c];
            // END SOLUTION update
        }

        // The triples (m, l, o) of two sets of keys merge as the pairs (m, l) do.
        const float m_new = fmaxf(m, m_part);
        const float m_safe = safe_maximum(m_new);
        const float before = __expf(m - m_safe), part = __expf(m_part - m_safe);
        m = m_new;
        l = before * l + part * l_part;
        watch_state(query, m, l);
#pragma unroll
        for (int c = 0; c < Columns::count; ++c) o[c] = before * o[c] + part * o_part[c];
    }

    // Where every score is -inf this is 0 / 0: NaN, as softmax has it.
#pragma unroll
    for (int c = 0; c < Columns::count; ++c) o[c] /= l;
    Columns::write(t.O.slice(b, h), query, o);
    if (threadIdx.x % 32 == 0) t.LSE(b, h, query) = m + logf(l);
}

/// Q once, K and V once for each row of each query head; O and LSE once.
GlobalBytes online_attention_bytes(const AttentionArguments& a) {
    GlobalBytes bytes;
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        const std::uint64_t query_rows = a.batch() * a.query_heads() * a.query_length();
        const std::uint64_t row = a.head_dim() * sizeof(T);
        bytes.read = query_rows * row * (1 + 2 * a.key_length());
        bytes.written = query_rows * (row + sizeof(float));
    });
    return bytes;
}

/// Launches the kernel compiled for the problem's dtype, head dimension and alignment.
void launch_online_attention(const AttentionArguments& a) {
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            constexpr int W = simt::kVectorWidth<T> < D / 32 ? simt::kVectorWidth<T> : D / 32;
            const ForwardTensors<T> tensors = forward_tensors<T>(a);
            const auto kernel =
                tensors.vector_rows ? online_attention_kernel<T, D, W> : online_attention_kernel<T, D, 1>;
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(ceil_div(a.query_length(), kQueriesPerBlock), a.query_heads(), a.batch());
            config.blockDim = dim3(32 * kQueriesPerBlock);
            config.stream = static_cast<cudaStream_t>(a.stream);
            simt::launch("online_attention_kernel", config, kernel, tensors);
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
