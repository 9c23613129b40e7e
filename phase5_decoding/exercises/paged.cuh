#pragma once

#include <stdexcept>
#include <string>

#include "common/attention/arguments.h"
#include "common/attention/dispatch.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/warp_reduce.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// Decoding from a paged cache (PagedAttention: Kwon and others 2023, section 4.1), one query for each head.
///
/// A dense cache has room for the longest sequence that might come, for every sequence. Here the cache is cut into pages of a few
/// keys, and a sequence owns as many as it needs, wherever they lie; its row of the page table names them in order:
///
///   page_table(b, n) = page   where keys n P, n P + 1, … of sequence b are: rows 0, 1, … of that page, P rows high
///
/// Beside that this is phase 5's idea, decode.cuh, in its plainest form: there are no splits, and a warp takes one key at a time, so that
/// its lanes read a row of K, and of V, side by side. A score costs five shuffles, for each of the rows.
///
///   rows    the G = Hq / Hkv query heads that read one KV head, up to R; K and V are read once for all of them
///   grid    x = Hkv, y = B
///   block   128 threads = 4 warps, which share out the keys of a sequence; lane k owns columns k, k + 32, …
///   shared  O_w   [4 R, D]   16 R D    one line for each warp and row
///           m, l  [4, R]     32 R      likewise
///   global  reads Q once, K and V once as far as there are keys; writes O and LSE once
// clang-format on

inline constexpr int kPagedThreads = 128;               ///< of a block
inline constexpr int kPagedWarps = kPagedThreads / 32;  ///< of a block
inline constexpr int kMostPagedRows = 8;                ///< query heads that may share a KV head

/// What the kernel is given.
template <class T>
struct PagedTensors {
    simt::GlobalTensor<const T, 4> Q;             ///< [B, Hq, 1, D]
    simt::GlobalTensor<const T, 4> K;             ///< [pages, Hkv, P, D]
    simt::GlobalTensor<const T, 4> V;             ///< [pages, Hkv, P, D]
    simt::GlobalTensor<const int, 2> page_table;  ///< [B, most pages of a sequence]; -1 where a sequence has no page
    simt::GlobalTensor<const int, 1> kv_lengths;  ///< [B], keys of each sequence
    simt::GlobalTensor<T, 4> O;                   ///< [B, Hq, 1, D]
    simt::GlobalTensor<float, 3> LSE;             ///< [B, Hq, 1]
    float scale;                                  ///< factor on Q K^T
};

/// Shared memory of a block.
template <int D, int R>
constexpr std::size_t paged_shared_bytes() {
    return simt::shared_bytes<float>(kPagedWarps * R, D) + 2 * simt::shared_bytes<float>(kPagedWarps, R);
}

template <class T, int D, int R>
__global__ void __launch_bounds__(kPagedThreads) paged_decode_kernel(PagedTensors<T> t) {
    constexpr int columns = D / 32;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int kv_head = blockIdx.x, b = blockIdx.y, head_dim = int(t.Q.extent(3));
    const int group = int(t.Q.extent(1) / t.K.extent(1)), first_head = kv_head * group;
    const int keys = t.kv_lengths(b);

    simt::SharedArena arena;
    const auto O_w = arena.tile<float, kPagedWarps * R, D>("O_w");
    const auto m_w = arena.tile<float, kPagedWarps, R>("m");
    const auto l_w = arena.tile<float, kPagedWarps, R>("l");

    float Q_i[R][columns], O_i[R][columns], m_i[R], l_i[R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
        m_i[r] = -INFINITY;
        l_i[r] = 0.0f;
#pragma unroll
        for (int c = 0; c < columns; ++c) {
            const int column = lane + 32 * c;
            Q_i[r][c] = O_i[r][c] = 0.0f;
            if (r < group && column < head_dim) Q_i[r][c] = float(t.Q(b, first_head + r, 0, column));
        }
    }

    // One key: row `row` of K(page, kv_head) and of V(page, kv_head), read by all lanes of the warp together.
    const auto take_key = [&](int page, int row) {
        float k[columns], v[columns];
#pragma unroll
        for (int c = 0; c < columns; ++c) {
            const int column = lane + 32 * c;
            k[c] = v[c] = 0.0f;
            if (column < head_dim) {
                k[c] = float(t.K(page, kv_head, row, column));
                v[c] = float(t.V(page, kv_head, row, column));
            }
        }
#pragma unroll
        for (int r = 0; r < R; ++r) {
            float product = 0.0f;
#pragma unroll
            for (int c = 0; c < columns; ++c) product += Q_i[r][c] * k[c];
            const float score = t.scale * warp_sum(product);
            const float m_new = fmaxf(m_i[r], score);
            const float rescale = merge_weight(m_i[r], m_new);  // what the old sums are worth under the new maximum
            const float p = __expf(score - safe_maximum(m_new));
            l_i[r] = rescale * l_i[r] + p;
            m_i[r] = m_new;
#pragma unroll
            for (int c = 0; c < columns; ++c) O_i[r][c] = rescale * O_i[r][c] + p * v[c];
        }
    };

    // BEGIN SOLUTION pages: the keys of the sequence, shared out to the warps
    const int page_rows = int(t.K.extent(2));
    for (int n = warp; n * page_rows < keys; n += kPagedWarps) {
        const int page = t.page_table(b, n);
        const int left = keys - n * page_rows, rows = left < page_rows ? left : page_rows;
        for (int row = 0; row < rows; ++row) take_key(page, row);
    }
    //= for (int key = warp; key < keys; key += kPagedWarps) take_key(b, key);
    // END SOLUTION pages

#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
        for (int c = 0; c < columns; ++c) O_w(warp * R + r, lane + 32 * c) = O_i[r][c];
        if (lane == 0) {
            m_w(warp, r) = m_i[r];
            l_w(warp, r) = l_i[r];
        }
    }
    __syncthreads();  // every warp's lines are there before anyone merges them

    for (int i = threadIdx.x; i < group * head_dim; i += kPagedThreads) {
        const int r = i / head_dim, column = i % head_dim;
        float m = -INFINITY, l = 0.0f, o = 0.0f;
#pragma unroll
        for (int w = 0; w < kPagedWarps; ++w) m = fmaxf(m, m_w(w, r));
#pragma unroll
        for (int w = 0; w < kPagedWarps; ++w) {
            const float weight = merge_weight(m_w(w, r), m);
            l += weight * l_w(w, r);
            o += weight * O_w(w * R + r, column);
        }
        t.O(b, first_head + r, 0, column) = T(keys > 0 ? o / l : 0.0f);  // a sequence without keys gives 0
        if (column == 0) t.LSE(b, first_head + r, 0) = m + logf(l);
    }
}

/// Calls `use(std::integral_constant<int, R>())` with the fewest rows that the kernel is compiled for and that hold the
/// group. Throws std::invalid_argument where more query heads share a KV head.
template <class Use>
void with_paged_rows(std::int64_t group, Use&& use) {
    if (group <= 1) return use(std::integral_constant<int, 1>());
    if (group <= 4) return use(std::integral_constant<int, 4>());
    if (group <= kMostPagedRows) return use(std::integral_constant<int, kMostPagedRows>());
    throw std::invalid_argument("paged decoding: " + std::to_string(group) + " query heads share a KV head; up to " +
                                std::to_string(kMostPagedRows) + " are possible");
}

/// Launches the kernel compiled for the problem's dtype, head dimension and group. `a` holds one query for each head;
/// its K and V are pages, as PagedTensors has them.
void launch_paged_decode(const AttentionArguments& a, const simt::TensorArgument& page_table,
                         const simt::TensorArgument& kv_lengths) {
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            with_paged_rows(a.query_heads() / a.kv_heads(), [&]<int R>(std::integral_constant<int, R>) {
                cudaLaunchConfig_t config{};
                config.gridDim = dim3(unsigned(a.kv_heads()), unsigned(a.batch()));
                config.blockDim = dim3(kPagedThreads);
                config.dynamicSmemBytes = paged_shared_bytes<D, R>();
                config.stream = static_cast<cudaStream_t>(a.stream);
                simt::launch("paged_decode_kernel", config, paged_decode_kernel<T, D, R>,
                             PagedTensors<T>{.Q = simt::global_tensor<const T, 4>(a.q),
                                             .K = simt::global_tensor<const T, 4>(a.k),
                                             .V = simt::global_tensor<const T, 4>(a.v),
                                             .page_table = simt::global_tensor<const int, 2>(page_table),
                                             .kv_lengths = simt::global_tensor<const int, 1>(kv_lengths),
                                             .O = simt::global_tensor<T, 4>(a.out),
                                             .LSE = simt::global_tensor<float, 3>(a.lse),
                                             .scale = a.scale});
            });
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
