#pragma once

#include <algorithm>

#include "common/attention/arguments.h"
#include "common/attention/dispatch.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/warp_reduce.cuh"
#include "common/attention/watch.cuh"
#include "phase5_decoding/decode_arguments.h"
#include "phase5_decoding/decode_tensors.cuh"
#include "phase5_decoding/split_plan.h"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// Flash decoding, the first of its two kernels (Dao, Haziza, Massa, Sizov 2023; FlashAttention-2's section 3.3 says why
/// the forward pass does otherwise).
///
/// Changed since phase 4: there is one query row, or a few, and a long cache of keys. Blocks along the queries would
/// leave the device idle, so everything that runs in parallel shares out keys instead:
///
///   - blocks: each takes a run of key tiles (a split) and leaves a partial result; combine.cuh merges those;
///   - warps: each takes 32 keys at a time, with (m, l, O) of its own; merged once, when the block is done;
///   - lanes: a lane owns one key for the scores, and a few columns of every n-th key for P V.
///
/// All query heads that read one KV head, and all query tokens, are rows of one block: K and V are fetched once for all
/// of them. Fetching is what takes the time: a key costs 2 D elements of traffic and 2 D multiply-adds a row.
///
///   rows    (Hq / Hkv) Sq a KV head, row = query * group + head in group; R of them a block
///   grid    x = splits * ceil(rows / R), y = Hkv, z = B
///   block   128 threads = 4 warps; warp w takes keys [32 w, 32 w + 32) of each tile of 128
///
///   shared  Q_i   [R, D]      4 R D                       read by all warps; at the end O_i lies there
///           K_j   [128, C]    128 (C sizeof(T) + 16)      a piece of C columns, up to 128 bytes a row; 32 rows a warp
///           m, l  [4, R]      32 R                        one line per warp, for the merge
///           seen  [1, R]      4 R                         how many keys each row sees
///           16 bytes of padding: eight lanes that read their own rows of K_j meet eight different groups of banks
///
///   global  reads Q once per split, K and V once per row tile, only keys that some row of the tile sees (and the lengths);
///           writes O and LSE, or one partial O and LSE per split
// clang-format on

/// In the place of a probability, which is never negative: the row does not see the key.
inline constexpr float kUnseen = -1.0f;

/// Who does what, for elements T, (padded) head dimension D and R rows.
template <class T, int D, int R>
struct DecodeShape {
    static constexpr int warps = kDecodeThreads / 32;    ///< of a block
    static constexpr int width = simt::kVectorWidth<T>;  ///< elements that are fetched at once

    /// Q K^T: columns of K that are in shared memory at a time.
    static constexpr int piece = D * sizeof(T) < 128 ? D : 128 / int(sizeof(T));
    static constexpr int pitch = piece + width;
    static constexpr int vectors_per_piece = piece / width;

    /// P V: lanes that lie side by side along a row of V, vectors of it that each owns, rows that a warp reads at once.
    /// 16 rows of O leave no registers for vectors of eight elements.
    static constexpr int V_width = R <= 8 ? width : 4;
    static constexpr int lanes_per_row = D / V_width < 32 ? D / V_width : 32;
    static constexpr int vectors = D / V_width / lanes_per_row;
    static constexpr int columns = vectors * V_width;
    static constexpr int rows_at_once = 32 / lanes_per_row;
    static constexpr int steps = 32 / rows_at_once;

    /// Loads that a lane has under way before it uses the first: the more, the better memory is used, as long as there
    /// are registers. R = 16 needs 128 of a thread's 255 for O alone.
    static constexpr int K_in_flight = R <= 8 ? vectors_per_piece : 2;
    static constexpr int V_in_flight = R <= 8 ? 4 : 2;
    static_assert(vectors_per_piece % K_in_flight == 0 && steps % V_in_flight == 0);

    /// The n-th vector of a piece of K that a lane fetches: neighbouring lanes, neighbouring addresses.
    __device__ static int K_row(int n, int lane) { return (32 * n + lane) / vectors_per_piece; }
    __device__ static int K_column(int n, int lane) { return (32 * n + lane) % vectors_per_piece * width; }

    /// The s-th row of V that a lane works on, and the column where its n-th vector starts.
    __device__ static int V_row(int s, int lane) { return s * rows_at_once + lane / lanes_per_row; }
    __device__ static int V_column(int n, int lane) { return (n * lanes_per_row + lane % lanes_per_row) * V_width; }

    /// Shared memory of a block.
    static constexpr std::size_t shared_bytes = simt::shared_bytes<float>(R, D) +
                                                simt::shared_bytes<T>(kKeyTile, pitch) +
                                                2 * simt::shared_bytes<float>(warps, R) + simt::shared_bytes<int>(1, R);
};

/// Neighbouring elements of a row; zeros for what lies beyond `rows` or beyond the row's end.
template <int N, class T>
__device__ __forceinline__ simt::Vector<T, N> load_or_zero(const simt::GlobalTensor<const T, 2>& matrix, int row,
                                                           int rows, int column, bool vectorized) {
    const int width = int(matrix.extent(1));
    simt::Vector<T, N> vector{};
    if (row >= rows) return vector;
    if (vectorized) {
        if (column < width) vector = matrix.template vec<simt::Vector<T, N>>(row, column);
    } else {
#pragma unroll
        for (int e = 0; e < N; ++e)
            if (column + e < width) vector.element[e] = matrix.template vec<T>(row, column + e);
    }
    return vector;
}

/// Q_i = the rows from `first_row` on, and how many keys each of them sees: zeros, and none, beyond the last of `rows`.
/// All threads together.
template <class T, int R, int D>
__device__ __forceinline__ void load_queries(const simt::SharedTile<float, R, D>& Q_i,
                                             const simt::SharedTile<int, 1, R>& seen, const DecodeTensors<T>& t, int b,
                                             int kv_head, int first_row, int rows) {
    if (threadIdx.x < R) {
        const int row = first_row + threadIdx.x;
        int keys = 0;
        if (row < rows) keys = t.visible_keys(b, row / t.group);
        seen(0, threadIdx.x) = keys;
    }
    for (int i = threadIdx.x; i < R * D; i += kDecodeThreads) {
        const int r = i / D, c = i % D, row = first_row + r;
        float q = 0.0f;
        if (row < rows && c < int(t.Q.extent(3)))
            q = float(t.Q(b, kv_head * t.group + row % t.group, row / t.group, c));
        Q_i(r, c) = q;
    }
}

/// A piece of the warp's 32 rows of K goes to its rows of K_j, from where each lane can read one row.
template <class Shape, class T, class Tile>
__device__ __forceinline__ void fetch_keys(const Tile& K_j, const simt::GlobalTensor<const T, 2>& K, int first_key,
                                           int end, int first_column, bool vectorized) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    __syncwarp();  // the warp is done with the old piece before it is overwritten
#pragma unroll
    for (int n = 0; n < Shape::vectors_per_piece; n += Shape::K_in_flight) {
        simt::WideVector<T> k[Shape::K_in_flight];
#pragma unroll
        for (int f = 0; f < Shape::K_in_flight; ++f)
            k[f] = load_or_zero<Shape::width>(K, first_key + Shape::K_row(n + f, lane), end,
                                              first_column + Shape::K_column(n + f, lane), vectorized);
#pragma unroll
        for (int f = 0; f < Shape::K_in_flight; ++f)
            K_j.template vec<simt::WideVector<T>>(32 * warp + Shape::K_row(n + f, lane), Shape::K_column(n + f, lane)) =
                k[f];
    }
    __syncwarp();  // the piece is complete before lanes read rows that other lanes fetched
}

/// S[r] += Q(r, :) . K(this lane's key, :), over one piece of the columns: a sum of its own, which loses less than one
/// over all columns would (kColumnsInTurn).
template <class Shape, int R, class QTile, class KTile>
__device__ __forceinline__ void add_scores(float (&S)[R], const QTile& Q_i, const KTile& K_j, int first_column) {
    using Vector = simt::WideVector<typename KTile::Element>;
    float of_piece[R] = {};
#pragma unroll 1
    for (int c = 0; c < Shape::piece; c += Shape::width) {
        const Vector k = K_j.template vec<Vector>(threadIdx.x, c);
#pragma unroll
        for (int r = 0; r < R; ++r)
#pragma unroll
            for (int e = 0; e < Shape::width; e += 4) {
                const float4 q = Q_i.template vec<float4>(r, first_column + c + e);
                of_piece[r] += q.x * float(k.element[e]) + q.y * float(k.element[e + 1]) +
                               q.z * float(k.element[e + 2]) + q.w * float(k.element[e + 3]);
            }
    }
#pragma unroll
    for (int r = 0; r < R; ++r) S[r] += of_piece[r];
}

/// The key of this lane joins m, l and O of all rows. P holds its scores, not yet scaled, and then its probabilities,
/// or kUnseen. l is a sum over this lane's keys only; m and O are the warp's.
template <int R, int Columns>
__device__ __forceinline__ void take_scores(float (&P)[R], float (&m_i)[R], float (&l_i)[R], float (&O_i)[R][Columns],
                                            const simt::SharedTile<int, 1, R>& seen, int key, int end, float scale,
                                            int first_row) {
    const int warp = threadIdx.x / 32;
#pragma unroll
    for (int r = 0; r < R; ++r) {
        const int row_sees = seen(0, r);
        const bool visible = key < end && key < row_sees;
        const float score = visible ? P[r] * scale : -INFINITY;
        const float m_new = fmaxf(m_i[r], warp_max(score));
        const float rescale = merge_weight(m_i[r], m_new);  // what the old sums are worth under the new maximum
        const float p = __expf(score - safe_maximum(m_new));
        P[r] = visible ? p : kUnseen;
        l_i[r] = rescale * l_i[r] + p;
        m_i[r] = m_new;
        watch_score(first_row + r, key, score);
        watch_maximum(first_row + r, m_new, warp);
        watch_rescale(first_row + r, rescale, warp);
#pragma unroll
        for (int c = 0; c < Columns; ++c) O_i[r][c] *= rescale;
    }
}

/// O[r][:] += P(r, j) V(j, :) over the warp's 32 keys. V goes from global memory straight to the lanes that own its
/// columns; the probability of its key comes by shuffle from the lane that owns that.
template <class Shape, int R, class T>
__device__ __forceinline__ void add_values(float (&O)[R][Shape::columns], const float (&P)[R],
                                           const simt::GlobalTensor<const T, 2>& V, int first_key, int end,
                                           bool vectorized) {
    constexpr int width = Shape::V_width;
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (int step = 0; step < Shape::steps; step += Shape::V_in_flight) {
        if (first_key + step * Shape::rows_at_once >= end) break;
        simt::Vector<T, width> v[Shape::V_in_flight][Shape::vectors];
#pragma unroll
        for (int f = 0; f < Shape::V_in_flight; ++f)
#pragma unroll
            for (int n = 0; n < Shape::vectors; ++n)
                v[f][n] = load_or_zero<width>(V, first_key + Shape::V_row(step + f, lane), end,
                                              Shape::V_column(n, lane), vectorized);
#pragma unroll
        for (int f = 0; f < Shape::V_in_flight; ++f)
#pragma unroll
            for (int r = 0; r < R; ++r) {
                const float p = __shfl_sync(0xffffffffu, P[r], Shape::V_row(step + f, lane));
                if (p < 0.0f) continue;  // kUnseen: not even NaN in V reaches a row that does not see the key
#pragma unroll
                for (int n = 0; n < Shape::vectors; ++n)
#pragma unroll
                    for (int e = 0; e < width; ++e) O[r][n * width + e] += p * float(v[f][n].element[e]);
            }
    }
}

/// The lanes of a warp become one: l and O are then sums over all of its keys. Lanes that own the same columns of O
/// have the same sum.
template <class Shape, int R>
__device__ __forceinline__ void merge_lanes(float (&O_i)[R][Shape::columns], float (&l_i)[R], int first_row) {
    const int warp = threadIdx.x / 32;
#pragma unroll
    for (int r = 0; r < R; ++r) {
        l_i[r] = warp_sum(l_i[r]);
        watch_sum(first_row + r, l_i[r], warp);
#pragma unroll
        for (int c = 0; c < Shape::columns; ++c)
#pragma unroll
            for (int step = Shape::lanes_per_row; step < 32; step *= 2)
                O_i[r][c] += __shfl_xor_sync(0xffffffffu, O_i[r][c], step);
    }
}

/// What this warp has summed up, under the maximum of all warps: by the rule that also merges splits. Its l goes to
/// l_of.
template <int R, int Columns, int Warps>
__device__ __forceinline__ void rescale_warp(float (&O_i)[R][Columns], const float (&l_i)[R], const float (&m_i)[R],
                                             const simt::SharedTile<float, Warps, R>& m_of,
                                             const simt::SharedTile<float, Warps, R>& l_of) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < R; ++r) {
        float m_row = -INFINITY;
#pragma unroll
        for (int w = 0; w < Warps; ++w) m_row = fmaxf(m_row, m_of(w, r));
        const float weight = merge_weight(m_i[r], m_row);
#pragma unroll
        for (int c = 0; c < Columns; ++c) O_i[r][c] *= weight;
        if (lane == 0) l_of(warp, r) = weight * l_i[r];
    }
}

/// O_sum(r, :) += O[r][:], from the lanes that own the columns. `first`: O_sum holds nothing yet.
template <class Shape, int R, class Tile>
__device__ __forceinline__ void add_rows(const Tile& O_sum, const float (&O)[R][Shape::columns], bool first) {
    const int lane = threadIdx.x % 32;
    if (lane >= Shape::lanes_per_row) return;
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
        for (int c = 0; c < Shape::columns; c += 4) {
            const int column = Shape::V_column(c / Shape::V_width, lane) + c % Shape::V_width;
            float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (!first) sum = O_sum.template vec<float4>(r, column);
            sum.x += O[r][c];
            sum.y += O[r][c + 1];
            sum.z += O[r][c + 2];
            sum.w += O[r][c + 3];
            O_sum.template vec<float4>(r, column) = sum;
        }
}

/// O and LSE of the rows, or what this split knows of them: of keys [begin, end). All threads together.
template <class T, int R, int D, int Warps>
__device__ __forceinline__ void store_rows(const DecodeTensors<T>& t, const simt::SharedTile<float, R, D>& O_sum,
                                           const simt::SharedTile<float, Warps, R>& m_of,
                                           const simt::SharedTile<float, Warps, R>& l_of,
                                           const simt::SharedTile<int, 1, R>& seen, int b, int kv_head, int split,
                                           int first_row, int rows, int begin, int end) {
    const int rows_here = rows - first_row < R ? rows - first_row : R;
    for (int i = threadIdx.x; i < rows_here * D; i += kDecodeThreads) {
        const int r = i / D, c = i % D, row = first_row + r;
        if (c >= int(t.K.extent(3))) continue;
        const std::int64_t n = t.result_row(b, kv_head, row);
        float l_row = 0.0f, m_row = -INFINITY;
#pragma unroll
        for (int w = 0; w < Warps; ++w) {
            l_row += l_of(w, r);
            m_row = fmaxf(m_row, m_of(w, r));
        }
        // A row that sees no key here is 0; one whose scores are all -inf is 0 / 0: NaN, as softmax has it.
        const int row_sees = seen(0, r);
        const float o = begin < end && begin < row_sees ? O_sum(r, c) / l_row : 0.0f;
        const float lse = m_row + logf(l_row);
        if (t.splits == 1) {
            t.O(n, c) = T(o);
            if (c == 0) t.LSE(n) = lse;
        } else {
            t.O_part(split, n, c) = o;
            if (c == 0) t.LSE_part(split, n) = lse;
        }
    }
}

template <class T, int D, int R>
__global__ void __launch_bounds__(kDecodeThreads, resident_blocks(R)) decode_split_kernel(DecodeTensors<T> t) {
    using Shape = DecodeShape<T, D, R>;
    constexpr int warps = Shape::warps, columns = Shape::columns;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    const int rows = t.group * t.queries, row_tiles = (rows + R - 1) / R;
    const int b = blockIdx.z, kv_head = blockIdx.y;
    const int split = blockIdx.x / row_tiles, first_row = int(blockIdx.x % row_tiles) * R;
    const int rows_here = rows - first_row < R ? rows - first_row : R;
    const auto K = t.K.slice(b, kv_head);
    const auto V = t.V.slice(b, kv_head);
    const int head_dim = int(K.extent(1));

    simt::SharedArena arena;
    const auto Q_i = arena.tile<float, R, D>("Q_i");
    const auto K_j = arena.tile<T, kKeyTile, Shape::piece, Shape::pitch>("K_j");
    const auto m_of = arena.tile<float, warps, R>("m");
    const auto l_of = arena.tile<float, warps, R>("l");
    const auto seen = arena.tile<int, 1, R>("seen");

    load_queries(Q_i, seen, t, b, kv_head, first_row, rows);
    __syncthreads();  // Q_i and `seen` are complete before anyone reads them

    // Later queries see more keys, so the tile's last row says how many are to be shared out. The splits are equal to
    // within a tile; with fewer tiles than splits some have nothing to do.
    const int keys = seen(0, rows_here - 1);
    // BEGIN SOLUTION share: the keys [begin, end) of this block, in whole tiles
    const std::int64_t tiles = (keys + kKeyTile - 1) / kKeyTile;
    const int begin = int(tiles * split / t.splits) * kKeyTile;
    const int planned_end = int(tiles * (split + 1) / t.splits) * kKeyTile,
              end = planned_end < keys ? planned_end : keys;
    //= const int begin = 0, end = keys;
    // END SOLUTION share

    float m_i[R], l_i[R], O_i[R][columns];
#pragma unroll
    for (int r = 0; r < R; ++r) {
        m_i[r] = -INFINITY;
        l_i[r] = 0.0f;  // of the keys that this lane owns
#pragma unroll
        for (int c = 0; c < columns; ++c) O_i[r][c] = 0.0f;
    }

    for (int first_key = begin + 32 * warp; first_key < end; first_key += kKeyTile) {
        float P_ij[R];  // first the scores, of all rows with the one key that this lane owns
#pragma unroll
        for (int r = 0; r < R; ++r) P_ij[r] = 0.0f;

        for (int first_column = 0; first_column < head_dim; first_column += Shape::piece) {
            fetch_keys<Shape>(K_j, K, first_key, end, first_column, t.vector_rows);
            add_scores<Shape>(P_ij, Q_i, K_j, first_column);
        }

        take_scores(P_ij, m_i, l_i, O_i, seen, first_key + lane, end, t.scale, first_row);
        add_values<Shape>(O_i, P_ij, V, first_key, end, t.vector_rows);
    }

    merge_lanes<Shape>(O_i, l_i, first_row);
    if (lane == 0)
#pragma unroll
        for (int r = 0; r < R; ++r) m_of(warp, r) = m_i[r];
    __syncthreads();  // every warp's m is there before anyone merges; nobody reads Q_i any more

    rescale_warp(O_i, l_i, m_i, m_of, l_of);
    // The warps take turns, so that the order of the additions, and with it the last bit of the sum, is always the
    // same.
    const auto O_sum = Q_i;
    for (int turn = 0; turn < warps; ++turn) {
        if (turn == warp) add_rows<Shape>(O_sum, O_i, turn == 0);
        __syncthreads();  // a turn is over before the next reads its sum; after the last, O_sum and every l are there
                          // for all
    }
    store_rows(t, O_sum, m_of, l_of, seen, b, kv_head, split, first_row, rows, begin, end);
}

/// Calls `use(std::integral_constant<int, R>())` with the number of rows that a block handles together, which
/// row_tile_size() says.
template <int D, class Use>
void with_row_tile(std::int64_t rows, Use&& use) {
    const int R = row_tile_size(rows, D);
    if (R == 1) return use(std::integral_constant<int, 1>());
    if (R == 4) return use(std::integral_constant<int, 4>());
    if (R == 8) return use(std::integral_constant<int, 8>());
    if constexpr (D <= kWidestHeadDimFor16Rows) return use(std::integral_constant<int, 16>());
}

/// Keys of a sequence of that length that a KV head reads for all its tiles of rows: each as far as its last row sees.
std::uint64_t decode_split_keys(const DecodeArguments& a, std::int64_t length) {
    const std::int64_t rows = a.rows_per_kv_head(), R = row_tile_size(rows, a.head_dim());
    std::uint64_t keys = 0;
    for (std::int64_t first = 0; first < rows; first += R) {
        const std::int64_t last_query = (std::min(first + R, rows) - 1) / a.group();
        const std::int64_t hidden = a.mask == Mask::none ? 0 : a.query_length() - 1 - last_query;
        keys += std::max<std::int64_t>(0, length - hidden);
    }
    return keys;
}

/// K and V for so many keys, those of all sequences together; Q, and the lengths where given, once per split. O and LSE
/// once, or once per split.
GlobalBytes decode_split_bytes(const DecodeArguments& a, std::uint64_t keys) {
    const std::uint64_t element = simt::element_bytes(a.q.type), row = a.head_dim() * element;
    const std::uint64_t per_row = row + (a.kv_lengths.rank ? sizeof(int) : 0);
    const std::uint64_t result = a.splits == 1 ? row + sizeof(float) : (a.head_dim() + 1) * sizeof(float);
    return {.read = a.kv_heads() * keys * 2 * row + a.splits * a.rows() * per_row,
            .written = a.splits * a.rows() * result};
}

/// Launches the kernel compiled for the problem's dtype, head dimension and rows.
void launch_decode_split(const DecodeArguments& a) {
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            with_row_tile<D>(a.rows_per_kv_head(), [&]<int R>(std::integral_constant<int, R>) {
                cudaLaunchConfig_t config{};
                config.gridDim = dim3(a.splits * ceil_div(a.rows_per_kv_head(), R), a.kv_heads(), a.batch());
                config.blockDim = dim3(kDecodeThreads);
                config.dynamicSmemBytes = DecodeShape<T, D, R>::shared_bytes;
                config.stream = static_cast<cudaStream_t>(a.stream);
                simt::launch("decode_split_kernel", config, decode_split_kernel<T, D, R>, decode_tensors<T>(a));
            });
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
