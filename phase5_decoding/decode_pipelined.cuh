#pragma once

#include "common/attention/arguments.h"
#include "common/attention/dispatch.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/swizzle.cuh"
#include "common/attention/warp_reduce.cuh"
#include "common/attention/watch.cuh"
#include "phase5_decoding/decode_arguments.h"
#include "phase5_decoding/decode_tensors.cuh"
#include "phase5_decoding/split_plan.h"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// Flash decoding, the first of its two kernels, the next step: the same split, arranged so that reading never stops.
///
/// Changed since decode.cuh, for 16-bit elements:
///
///   - K and V are fetched by asynchronous copies into a ring in shared memory, two to sixteen tiles ahead of their use.
///     Each warp has a ring of its own, with 8 KiB or more under way, so the loop needs no block-wide barrier;
///   - scores and P V are products on the tensor cores. Their tiles have 16 rows, so up to 16 rows of Q cost the same;
///   - tiles are swizzled, not padded: a piece of 16 bytes of row r lies in column c xor r. Padding would keep the banks
///     apart as well, but rows that do not start at multiples of 128 bytes slow the copies down (README.md has figures);
///   - a split is no run of keys: the splits take runs of 16 W keys in turn;
///   - the L2 cache is told that nobody reads a key again, and the merge may start when all keys have been read.
///
/// Every row of a block sees the same keys: a causal mask over several query tokens is for decode.cuh.
///
///   rows    (Hq / Hkv) Sq a KV head, row = query * group + head in group; 16 of them a block
///   grid    x = splits * ceil(rows / 16), y = Hkv, z = B
///   block   W = 8 warps, or 4 (D > 64): two small blocks on a multiprocessor in place of a large one, or what there is
///           shared memory for; warp w takes keys [16 w, 16 w + 16) of each of its runs of 16 W
///
///   shared  ring  [W S 16, D]        32 W S D      S = 2 (128 / D) + 1 tiles a warp, of K and V in turn, at least 3
///           Q_i   [16, D]            32 D          read by all warps, for each 16 keys anew
///           O_w   [4 W, D]           16 W (D + 8)  four rows of every warp at a time (two for D = 256), for the merge
///           m, l  [W, 16]            128 W         one line per warp, likewise
///           120832 bytes for D = 128 and 8 warps; for 4 warps 80000, of which 62464 are used
///
///   global  reads Q once per split, K and V once per row tile, only keys that are seen (and the lengths);
///           writes O and LSE, or one partial O and LSE per split
// clang-format on

/// What a warp has asked memory for and not yet had, unless one step is more: README.md, "How far ahead?".
inline constexpr int kBytesUnderWay = 8 * 1024;

/// What a block of 4 warps asks of shared memory at least. So a multiprocessor with 164 to 228 KiB holds two and not
/// three, which would come in fewer but less even waves.
inline constexpr std::size_t kLeastShared = 80'000;

/// Who does what, for 16-bit elements T, (padded) head dimension D and W warps.
template <class T, int D, int W>
struct PipelineShape {
    static constexpr int threads = 32 * W;           ///< of a block
    static constexpr int rows = kPipelinedRows;      ///< of Q_i
    static constexpr int keys = 16;                  ///< of a tile: what a warp takes in one step
    static constexpr int keys_of_block = W * keys;   ///< of all its warps in one step
    static constexpr int step_bytes = keys * D * 4;  ///< of a warp's K and V
    static constexpr int ahead =
        step_bytes < kBytesUnderWay ? kBytesUnderWay / step_bytes : 1;  ///< steps, of the copies
    static constexpr int slots = 2 * ahead + 1;              ///< tiles of a ring: those under way, and the one in use
    static constexpr int width = simt::kVectorWidth<T>;      ///< elements that are copied at once
    static constexpr int lanes_per_row = D / width;          ///< that copy one row
    static constexpr int rows_at_once = 32 / lanes_per_row;  ///< rows that a warp copies with one instruction
    static constexpr int merged_rows = D <= 128 ? 4 : 2;     ///< rows of O that the warps merge at a time
    static constexpr int merge_pitch = D + 8;                ///< of O_w: eight banks from row to row
    static constexpr int merge_width = (merged_rows * D + threads - 1) / threads;  ///< of their elements, a thread's
    static_assert(rows % merged_rows == 0);

    /// Of a block: what it uses, and what it asks for.
    static constexpr std::size_t used_bytes =
        simt::shared_bytes<T>(W * slots * keys, D) + simt::shared_bytes<T>(rows, D) +
        simt::shared_bytes<float>(W * merged_rows, merge_pitch) + 2 * simt::shared_bytes<float>(W, rows);
    static constexpr std::size_t shared_bytes =
        W == kFewPipelinedWarps && used_bytes < kLeastShared ? kLeastShared : used_bytes;
};

/// Begins to copy a tile of K or V, keys from `first_key` on, to the ring's rows from `first_row` on. Keys from `end`
/// on become zero: their probability will be 0, but 0 * NaN would be NaN. Columns beyond the head's are left as they
/// are.
template <class Shape, int D, class T, class Ring>
__device__ __forceinline__ void fetch_tile(const Ring& ring, int first_row,
                                           const simt::GlobalTensor<const T, 2>& matrix, int first_key, int end) {
    using Wide = simt::WideVector<T>;
    using simt::CopyCache, simt::Reuse;
    const int lane = threadIdx.x % 32, first = lane / Shape::lanes_per_row;
    const int column = lane % Shape::lanes_per_row * Shape::width;
    if (column >= int(matrix.extent(1))) return;
    if (first_key + Shape::keys <= end) {
        const std::int64_t key = first_key + first;  // 64 bits, so that each row's address is the first plus a constant
#pragma unroll
        for (int r = 0; r < Shape::keys; r += Shape::rows_at_once)
            simt::copy_async<CopyCache::l2_only, Reuse::none>(
                ring.template vec<Wide>(first_row + first + r, swizzled<D>(first + r, column)),
                matrix.template vec<Wide>(key + r, column));
    } else {
        for (int r = first; r < Shape::keys; r += Shape::rows_at_once) {
            if (first_key + r < end)
                simt::copy_async<CopyCache::l2_only, Reuse::none>(
                    ring.template vec<Wide>(first_row + r, swizzled<D>(r, column)),
                    matrix.template vec<Wide>(first_key + r, column));
            else
                ring.template vec<Wide>(first_row + r, swizzled<D>(r, column)) = Wide{};
        }
    }
}

/// Begins to copy the rows of Q from `first_row` on to Q_i; zeros beyond the last of `rows_here`. All threads together.
template <class Shape, class T, int R, int D>
__device__ __forceinline__ void fetch_queries(const simt::SharedTile<T, R, D>& Q_i, const DecodeTensors<T>& t, int b,
                                              int kv_head, int first_row, int rows_here) {
    using Wide = simt::WideVector<T>;
    const int head_dim = int(t.K.extent(3));
    for (int i = threadIdx.x; i < R * Shape::lanes_per_row; i += Shape::threads) {
        const int r = i / Shape::lanes_per_row, c = i % Shape::lanes_per_row * Shape::width, row = first_row + r;
        if (r < rows_here && c < head_dim)
            simt::copy_async(Q_i.template vec<Wide>(r, swizzled<D>(r, c)),
                             t.Q.slice(b, kv_head * t.group + row % t.group).template vec<Wide>(row / t.group, c));
        else
            Q_i.template vec<Wide>(r, swizzled<D>(r, c)) = Wide{};
    }
}

/// The columns of the warp's ring from `head_dim` on, which no copy reaches, are zero once and for all.
template <class Shape, class T, int Rows, int D>
__device__ __forceinline__ void clear_surplus(const simt::SharedTile<T, Rows, D>& ring, int ring_begin, int ring_end,
                                              int head_dim) {
    using Wide = simt::WideVector<T>;
    const int surplus = head_dim + int(threadIdx.x % 32) * Shape::width;
    if (surplus < D)
        for (int row = ring_begin; row < ring_end; ++row)
            ring.template vec<Wide>(row, swizzled<D>(row, surplus)) = Wide{};
}

/// The first of a lane's two rows of S_ij, O_i, m_i and l_i, h = 0; h = 1 is 8 rows below
/// (common/simt/matrix/fragments.h).
__device__ __forceinline__ int row_of_lane() { return int(threadIdx.x % 32 / 4); }

/// The first of the two columns, of each eight, that a lane holds.
__device__ __forceinline__ int pair_of_lane() { return int(threadIdx.x % 4 * 2); }

/// S_ij += Q_i K_j^T, with K_j in the ring's rows from `used` on; unscaled.
template <class T, int R, int Rows, int D>
__device__ __forceinline__ void multiply_keys(simt::FragmentC (&S_ij)[2], const simt::SharedTile<T, R, D>& Q_i,
                                              const simt::SharedTile<T, Rows, D>& ring, int used) {
    using Wide = simt::WideVector<T>;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int d = 0; d < D; d += 16) {
        simt::FragmentA<T> q;
        simt::FragmentB<T> k[2];
        const int key = lane % 8 + lane / 16 * 8;
        simt::ldmatrix(q, Q_i.template vec<Wide>(lane % 16, swizzled<D>(lane % 16, d + lane / 16 * 8)));
        simt::ldmatrix(k, ring.template vec<Wide>(used + key, swizzled<D>(key, d + lane / 8 % 2 * 8)));
        simt::mma_m16n8k16(S_ij[0], q, k[0]);
        simt::mma_m16n8k16(S_ij[1], q, k[1]);
    }
}

/// The keys from `first_key` on join m_i, l_i and O_i; S_ij becomes P_ij.
template <int Columns>
__device__ __forceinline__ void weigh_scores(simt::FragmentC (&S_ij)[2], float (&m_i)[2], float (&l_i)[2],
                                             simt::FragmentC (&O_i)[Columns], int first_key, int end, float scale,
                                             int first_row, int rows) {
    const int warp = threadIdx.x / 32;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int row = first_row + row_of_lane() + 8 * h;
        float m_tile = -INFINITY;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int key = first_key + e / 2 * 8 + pair_of_lane() + e % 2;
            float& s = S_ij[e / 2].element[2 * h + e % 2];
            s = key < end ? s * scale : -INFINITY;
            m_tile = fmaxf(m_tile, s);
            if (row < rows) watch_score(row, key, s);
        }
        const float m_new = fmaxf(m_i[h], max_over<4>(m_tile));
        const float rescale = merge_weight(m_i[h], m_new);  // what the old sums are worth under the new maximum
        l_i[h] *= rescale;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            float& p = S_ij[e / 2].element[2 * h + e % 2];
            p = __expf(p - safe_maximum(m_new));
            l_i[h] += p;
        }
        m_i[h] = m_new;
        if (row < rows) {
            watch_maximum(row, m_new, warp);
            watch_rescale(row, rescale, warp);
        }
#pragma unroll
        for (int n = 0; n < Columns; ++n) {
            O_i[n].element[2 * h] *= rescale;
            O_i[n].element[2 * h + 1] *= rescale;
        }
    }
}

/// O_i += P_ij V_j, with V_j in the ring's rows from `used` on.
template <class T, int Rows, int D>
__device__ __forceinline__ void multiply_values(simt::FragmentC (&O_i)[D / 8], const simt::FragmentA<T>& P_ij,
                                                const simt::SharedTile<T, Rows, D>& ring, int used) {
    using Wide = simt::WideVector<T>;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < D / 8; n += 2) {
        simt::FragmentB<T> v[2];
        const int key = lane % 16;
        simt::ldmatrix_trans(v, ring.template vec<Wide>(used + key, swizzled<D>(key, 8 * n + lane / 16 * 8)));
        simt::mma_m16n8k16(O_i[n], P_ij, v[0]);
        simt::mma_m16n8k16(O_i[n + 1], P_ij, v[1]);
    }
}

/// Of each row, this warp's m and l, over all of its keys, go to where the merge finds them.
template <int W, int R>
__device__ __forceinline__ void leave_sums(const simt::SharedTile<float, W, R>& m_of,
                                           const simt::SharedTile<float, W, R>& l_of, const float (&m_i)[2],
                                           float (&l_i)[2], int first_row, int rows) {
    const int warp = threadIdx.x / 32;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int r = row_of_lane() + 8 * h;
        l_i[h] = sum_over<4>(l_i[h]);
        if (first_row + r < rows) watch_sum(first_row + r, l_i[h], warp);
        if (pair_of_lane() == 0) {
            m_of(warp, r) = m_i[h];
            l_of(warp, r) = l_i[h];
        }
    }
}

/// O_w = this warp's O_i, of the rows from `done` on that are merged together.
template <class Shape, int Rows, int D, int Pitch>
__device__ __forceinline__ void leave_rows(const simt::SharedTile<float, Rows, D, Pitch>& O_w,
                                           const simt::FragmentC (&O_i)[D / 8], int done) {
    const int warp = threadIdx.x / 32;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int r = row_of_lane() + 8 * h - done;
        if (r < 0 || r >= Shape::merged_rows) continue;
#pragma unroll
        for (int n = 0; n < D / 8; ++n)
            O_w.template vec<float2>(warp * Shape::merged_rows + r, 8 * n + pair_of_lane()) =
                make_float2(O_i[n].element[2 * h], O_i[n].element[2 * h + 1]);
    }
}

/// O and LSE of those rows, or what this split knows of them, of what all warps have left. All threads together.
template <class Shape, class T, int Rows, int D, int Pitch, int W, int R>
__device__ __forceinline__ void merge_rows(const DecodeTensors<T>& t,
                                           const simt::SharedTile<float, Rows, D, Pitch>& O_w,
                                           const simt::SharedTile<float, W, R>& m_of,
                                           const simt::SharedTile<float, W, R>& l_of, int b, int kv_head, int split,
                                           int first_row, int done, int rows_here, bool has_keys) {
    constexpr int width = Shape::merge_width;
    using Piece = simt::Vector<float, width>;
    const int head_dim = int(t.K.extent(3));
    const int i = threadIdx.x * width, r = done + i / D, c = i % D;
    if (i >= Shape::merged_rows * D || r >= rows_here || c >= head_dim) return;
    float m_w[W], m_row = -INFINITY, l_row = 0.0f;
#pragma unroll
    for (int w = 0; w < W; ++w) {
        m_w[w] = m_of(w, r);
        m_row = fmaxf(m_row, m_w[w]);
    }
    Piece O_row{};
#pragma unroll
    for (int w = 0; w < W; ++w) {  // always in this order, so that the last bit of the sum is always the same
        const float weight = merge_weight(m_w[w], m_row);
        const Piece part = O_w.template vec<Piece>(w * Shape::merged_rows + i / D, c);
        l_row += weight * l_of(w, r);
#pragma unroll
        for (int e = 0; e < width; ++e) O_row.element[e] += weight * part.element[e];
    }
    // A row that sees no key here is 0; one whose scores are all -inf is 0 / 0: NaN, as softmax has it.
#pragma unroll
    for (float& o : O_row.element) o = has_keys ? __fdividef(o, l_row) : 0.0f;
    const float lse = m_row + __logf(l_row);
    const std::int64_t n = t.result_row(b, kv_head, first_row + r);
    if (t.splits == 1) {
        simt::Vector<T, width> rounded;
#pragma unroll
        for (int e = 0; e < width; ++e) rounded.element[e] = T(O_row.element[e]);
        t.O.template vec<simt::Vector<T, width>>(n, c) = rounded;
        if (c == 0) t.LSE(n) = lse;
    } else {
        t.O_part.slice(split).template vec<Piece>(n, c) = O_row;
        if (c == 0) t.LSE_part(split, n) = lse;
    }
}

template <class T, int D, int W>
__global__ void __launch_bounds__(32 * W) decode_pipelined_kernel(DecodeTensors<T> t) {
    using Shape = PipelineShape<T, D, W>;
    constexpr int R = Shape::rows, slots = Shape::slots;
    const int warp = threadIdx.x / 32;

    const int rows = t.group * t.queries, row_tiles = (rows + R - 1) / R;
    const int b = blockIdx.z, kv_head = blockIdx.y;
    const int split = blockIdx.x / row_tiles, first_row = int(blockIdx.x % row_tiles) * R;
    const int rows_here = rows - first_row < R ? rows - first_row : R;
    const auto K = t.K.slice(b, kv_head);
    const auto V = t.V.slice(b, kv_head);
    const int head_dim = int(K.extent(1));

    simt::SharedArena arena;
    const auto ring = arena.tile<T, W * slots * Shape::keys, D>("K_j, V_j");
    const auto Q_i = arena.tile<T, R, D>("Q_i");
    const auto O_w = arena.tile<float, W * Shape::merged_rows, D, Shape::merge_pitch>("O_w");
    const auto m_of = arena.tile<float, W, R>("m");
    const auto l_of = arena.tile<float, W, R>("l");

    // The splits take the runs of 16 W keys in turn, so that all of them walk through memory side by side, and end
    // together. With fewer runs than splits some have nothing to do.
    const int end = t.visible_keys(b, t.queries - 1), step = t.splits * Shape::keys_of_block;
    const int first = split * Shape::keys_of_block + Shape::keys * warp;  // of this warp's keys
    const bool has_keys = split * Shape::keys_of_block < end;

    // The warp's ring holds K_0 V_0 K_1 V_1 … in turn. `used` is the tile in use, `freed` the one that is filled next.
    const int ring_begin = warp * slots * Shape::keys, ring_end = ring_begin + slots * Shape::keys;
    const auto next = [&](int row) { return row + Shape::keys == ring_end ? ring_begin : row + Shape::keys; };
    int used = ring_begin, freed = ring_begin;
    const auto fetch = [&](const auto& matrix, int first_key, bool with_queries = false) {
        if (first_key < end) fetch_tile<Shape, D>(ring, freed, matrix, first_key, end);
        if (with_queries) fetch_queries<Shape>(Q_i, t, b, kv_head, first_row, rows_here);
        simt::commit_copies();  // of nothing, past the end, so that the counts of the waits stay right
        freed = next(freed);
    };
    // K_0 goes first, so that memory has work while the addresses of Q_i are computed; and Q_i before all other tiles,
    // behind which it would arrive last, and everyone would wait for it.
#pragma unroll
    for (int j = 0; j < Shape::ahead; ++j) {
        fetch(K, first + j * step, j == 0);
        fetch(V, first + j * step);
    }

    clear_surplus<Shape>(ring, ring_begin, ring_end, head_dim);
    // K_0 and Q_i are the first group: all but the newest, the other tiles under way.
    simt::wait_copies<2 * Shape::ahead - 1>();
    __syncthreads();  // Q_i is complete before anyone reads what others have fetched

    float m_i[2] = {-INFINITY, -INFINITY}, l_i[2] = {0.0f, 0.0f};  // l_i: of this lane's keys
    simt::FragmentC O_i[D / 8] = {};

    for (int first_key = first; first_key < end; first_key += step) {
        simt::wait_copies<slots - 2>();
        __syncwarp();  // K_j is complete before other lanes read it; everyone is done with V_{j-1} before it is
                       // overwritten
        fetch(K, first_key + Shape::ahead * step);
        simt::FragmentC S_ij[2] = {};
        multiply_keys<T>(S_ij, Q_i, ring, used);
        used = next(used);

        weigh_scores(S_ij, m_i, l_i, O_i, first_key, end, t.scale, first_row, rows);
        const auto P_ij = simt::to_a<T>(S_ij[0], S_ij[1]);

        simt::wait_copies<slots - 2>();
        __syncwarp();  // V_j is complete before other lanes read it; everyone is done with K_j before it is overwritten
        fetch(V, first_key + Shape::ahead * step);
        multiply_values<T>(O_i, P_ij, ring, used);
        used = next(used);
    }

    simt::let_next_kernel_start();  // the merge's blocks may take their places now, and wait there for the parts

    // The warps of a block become one, by the rule that also merges splits.
    leave_sums(m_of, l_of, m_i, l_i, first_row, rows);
    for (int done = 0; done < rows_here; done += Shape::merged_rows) {
        if (done > 0) __syncthreads();  // everyone is done with the old rows of O_w before they are overwritten
        leave_rows<Shape>(O_w, O_i, done);
        __syncthreads();  // every warp's rows, and the first time every m and l, are there before anyone merges them
        merge_rows<Shape>(t, O_w, m_of, l_of, b, kv_head, split, first_row, done, rows_here, has_keys);
    }
}

/// Calls `use(std::integral_constant<int, W>())` with the number of warps of a block, which the host has chosen; for D
/// up to 64 there is no choice.
template <int D, class Use>
void with_pipelined_warps(int warps, Use&& use) {
    if constexpr (D > kMostWarpsUpTo)
        if (warps == kFewPipelinedWarps) return use(std::integral_constant<int, kFewPipelinedWarps>());
    use(std::integral_constant<int, kMostPipelinedWarps>());
}

/// Shared memory that a block needs.
std::size_t decode_pipelined_shared_bytes(const DecodeArguments& a) {
    std::size_t bytes = 0;
    with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
        with_pipelined_warps<D>(a.warps, [&]<int W>(std::integral_constant<int, W>) {
            bytes = PipelineShape<simt::f16, D, W>::shared_bytes;
        });
    });
    return bytes;
}

/// K and V once for each tile of rows, of sequences that have so many keys together; Q, and the lengths where given,
/// once per split. O and LSE once, or once per split.
GlobalBytes decode_pipelined_bytes(const DecodeArguments& a, std::uint64_t keys) {
    constexpr std::uint64_t element = 2;
    const std::uint64_t row = a.head_dim() * element, row_tiles = ceil_div(a.rows_per_kv_head(), kPipelinedRows);
    const std::uint64_t blocks = a.splits * row_tiles * a.kv_heads() * a.batch();
    const std::uint64_t lengths = a.kv_lengths.rank ? blocks * 32 * a.warps * sizeof(int) : 0;  // by every thread
    const std::uint64_t result = a.splits == 1 ? row + sizeof(float) : (a.head_dim() + 1) * sizeof(float);
    return {.read = a.kv_heads() * row_tiles * keys * 2 * row + a.splits * a.rows() * row + lengths,
            .written = a.splits * a.rows() * result};
}

/// Launches the kernel compiled for the problem's dtype, head dimension and warps; its elements have 16 bits.
void launch_decode_pipelined(const DecodeArguments& a) {
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        if constexpr (sizeof(T) == 2)
            with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
                with_pipelined_warps<D>(a.warps, [&]<int W>(std::integral_constant<int, W>) {
                    using Shape = PipelineShape<T, D, W>;
                    cudaLaunchConfig_t config{};
                    config.gridDim =
                        dim3(a.splits * ceil_div(a.rows_per_kv_head(), Shape::rows), a.kv_heads(), a.batch());
                    config.blockDim = dim3(Shape::threads);
                    config.dynamicSmemBytes = Shape::shared_bytes;
                    config.stream = static_cast<cudaStream_t>(a.stream);
                    simt::launch("decode_pipelined_kernel", config, decode_pipelined_kernel<T, D, W>,
                                 decode_tensors<T>(a));
                });
            });
    });
}

}  // namespace ladder::SIMT_MACHINE
