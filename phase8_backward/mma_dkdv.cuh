#pragma once

#include "common/attention/copy_tile.cuh"
#include "common/attention/edge_tile.cuh"
#include "common/attention/mma_edge.cuh"
#include "common/attention/watch.cuh"
#include "phase8_backward/backward_tensors.cuh"
#include "phase8_backward/mma_dq_sum.cuh"
#include "phase8_backward/mma_shapes.cuh"
#include "phase8_backward/mma_sum.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// FlashAttention-2, backward pass on tensor cores: dK and dV, and dQ where Adds.
///
/// The loop of dkdv.cuh, with all products as mma.sync m16n8k16. Changed since then:
///
///   - S_ij^T and dP_ij^T are computed with keys as rows, so that P_ij^T and dS_ij^T are operands A of dV_j and dK_j where
///     they are made: in registers;
///   - warps work in pairs. Both of a pair have the same 16 M keys, and the two loops are alike: two products each, of
///     which the second adds up a gradient, and between them what makes the one's result the other's operand.
///
///         the warp of P      S_ij^T  = K_j Q_i^T      P_ij^T  = 2^(scale log2 e S_ij^T - log2 e LSE_i)   dV_j += P_ij^T dO_i
///         the warp of dS     dP_ij^T = V_j dO_i^T     dS_ij^T = P_ij^T o (dP_ij^T - D_i)                 dK_j += dS_ij^T Q_i
///
///     One warp alone would need twice the registers for the two sums, so it could have half the keys, and would read all
///     of Q_i and dO_i twice for them. P_ij^T goes from one to the other through shared memory;
///   - Q_i, dO_i, LSE_i and D_i come by asynchronous copies, into two stages in turn, while those before are multiplied.
///     The warps of P ask for them, as soon as they have handed over their weights: they have fewer products, and nobody
///     waits for addresses to be computed;
///   - where Adds, the warps of dS compute most of dQ_i of the step before, while those of P make weights, and those of P
///     the rest, while dS_ij is made: dS_ij goes through shared memory, since dQ_i is a sum over the keys of all warps.
///
///   grid    x = ceil(Sk / B_c) key tiles, y = Hkv heads, z = B sequences; a block walks through all query heads of its keys
///   block   2 W warps: warps w and W + w are the pair of keys 16 M w to 16 M (w + 1) - 1
///
///   shared  K_j, V_j     [2 B_c, D]   4 B_c D    written once; each warp reads its own rows (those of dQ_i all of K_j),
///                                                and leaves its rows of dV_j or dK_j there
///           Q_i, dO_i    [4 B_r, D]   8 B_r D    two stages; every warp reads all of both
///           P_ij^T       [B_c, B_r]   2 B_c B_r  as registers hold it: a lane writes what the same lane of another warp reads
///           dS_ij^T      [2 B_c, B_r] 4 B_c B_r  two stages (one where the warps of P have no part of dQ_i): each warp of
///                                                dS writes its own rows; where Adds, all warps read all of it
///           LSE_i, D_i   [4, B_r]     16 B_r     two stages
///           181,248 bytes for D = 128 with B_c = 128 and B_r = 64
///
///   global  reads K and V once, and once per key tile Q, dO, LSE and D of the query tiles that see it; writes dK and dV
///           once; where Adds, adds to dQ_sum once per key tile
// clang-format on

/// The queries of a tile that see key (m, h) of a lane.
template <int M>
struct Seeing {
    int from[M][2] = {};  ///< the first
    int until = 0;        ///< one beyond the last: others do not exist

    /// Whether a query is none of them.
    __device__ __forceinline__ bool hides(int m, int h, int query) const {
        return query < from[m][h] || query >= until;
    }
};

/// P_ij^T of the warp's keys, as operands A: 2^(exponent s - log2 e LSE), and 0 for hidden pairs, and for queries that
/// do not exist: their scores are 0, but with a key of infinities NaN. Each operand is handed over to the pair's other
/// warp as registers hold it.
template <class T, bool edge, int M, int N, class Rows, class HandOver, class Watch>
__device__ __forceinline__ void make_weights(simt::FragmentA<T> (&P)[M][N / 2], const simt::FragmentC (&S)[M][N],
                                             float exponent, const Rows& LSE_i, const Seeing<M>& seeing,
                                             const MmaOwner<M>& owner, const HandOver& hand_over, const Watch& watch) {
#pragma unroll
    for (int k = 0; k < N / 2; ++k) {
        simt::Vector<float, 2> lse[2];
#pragma unroll
        for (int side = 0; side < 2; ++side) lse[side] = LSE_i(16 * k + 8 * side + owner.column());
#pragma unroll
        for (int m = 0; m < M; ++m) {
            simt::FragmentC p[2];
#pragma unroll
            for (int side = 0; side < 2; ++side)
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const int query = 16 * k + 8 * side + owner.column() + e % 2;
                    const float s = S[m][2 * k + side].element[e];
                    const bool hidden = edge && seeing.hides(m, e / 2, query);
                    watch(query, owner.row(m, e / 2), hidden ? -INFINITY : s);
                    const float weight = simt::fast_exp2(fmaf(s, exponent, -kLog2E * lse[side].element[e % 2]));
                    p[side].element[e] = hidden ? 0.0f : weight;
                }
            P[m][k] = simt::to_a<T>(p[0], p[1]);
            simt::WideVector<T> bits;
            std::memcpy(&bits, &P[m][k], sizeof bits);
            hand_over(m, k) = bits;
        }
    }
}

/// dS_ij^T of the warp's keys, as operands A: P o (dP - D), and 0 for hidden pairs. `P(m, k)` is what the other warp
/// handed over; each register goes to `keep(m, h, query)` as well, two neighbours of one key.
template <class T, bool edge, int M, int N, class Rows, class HandedOver, class Keep>
__device__ __forceinline__ void make_score_gradients(simt::FragmentA<T> (&dS)[M][N / 2],
                                                     const simt::FragmentC (&dP)[M][N], const Rows& D_i,
                                                     const Seeing<M>& seeing, const MmaOwner<M>& owner,
                                                     const HandedOver& P, const Keep& keep) {
#pragma unroll
    for (int k = 0; k < N / 2; ++k) {
        simt::Vector<float, 2> d[2];
#pragma unroll
        for (int side = 0; side < 2; ++side) d[side] = D_i(16 * k + 8 * side + owner.column());
#pragma unroll
        for (int m = 0; m < M; ++m) {
            const simt::WideVector<T> p = P(m, k);
            simt::FragmentC ds[2];
#pragma unroll
            for (int side = 0; side < 2; ++side)
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const int query = 16 * k + 8 * side + owner.column() + e % 2;
                    const float gradient =
                        float(p.element[4 * side + e]) * (dP[m][2 * k + side].element[e] - d[side].element[e % 2]);
                    ds[side].element[e] = edge && seeing.hides(m, e / 2, query) ? 0.0f : gradient;
                }
            dS[m][k] = simt::to_a<T>(ds[0], ds[1]);
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                simt::Vector<T, 2> pair;
                std::memcpy(&pair, &dS[m][k].registers[r], sizeof pair);
                keep(m, r % 2, 16 * k + 8 * (r / 2), pair);
            }
        }
    }
}

/// Queries that come past in one step.
struct QueryTile {
    int head, number;  ///< query head, and tile of its queries
};

template <class T, class Shape, bool Adds>
__global__ void __launch_bounds__(Shape::threads, 1) mma_dkdv_kernel(BackwardTensors<T> t, Mask mask) {
    constexpr int B_c = Shape::B_c, B_r = Shape::B_r, D = Shape::D, M = Shape::m;
    constexpr int stages = Shape::stages, threads = Shape::threads, fetching = threads / 2;

    const int b = blockIdx.z, kv_head = blockIdx.y, first_key = blockIdx.x * B_c;
    const auto K = t.K.slice(b, kv_head), V = t.V.slice(b, kv_head);
    const int query_length = int(t.Q.extent(2)), key_length = int(K.extent(0));
    const int heads = int(t.Q.extent(1) / t.K.extent(1));

    // The query tiles that see a key of the block, of one query head after the other; those from full_from on see all.
    const int first_seen = first_seeing(mask, first_key, query_length, key_length), first_tile = first_seen / B_r;
    const int tiles = first_seen < query_length ? (query_length + B_r - 1) / B_r - first_tile : 0;
    const int steps = heads * tiles;
    const int full_from =
        first_key + B_c > key_length ? query_length : first_seeing(mask, first_key + B_c - 1, query_length, key_length);
    const auto after = [&](QueryTile at) {
        return at.number + 1 < first_tile + tiles ? QueryTile{at.head, at.number + 1}
                                                  : QueryTile{at.head + 1, first_tile};
    };

    simt::SharedArena arena;
    const auto kept_tile = arena.tile<T, 2 * B_c, D>("K_j, V_j");
    const auto passing_tile = arena.tile<T, stages * 2 * B_r, D>("Q_i, dO_i");
    const auto P_tile = arena.tile<T, Shape::pairs * Shape::fragments * 32, 8>("P_ij^T");
    const auto dS_tile = arena.tile<T, Shape::dS_stages * B_c * B_r / 8, 8>("dS_ij^T");
    const auto rows = arena.tile<float, stages * 2, B_r>("LSE_i, D_i");
    const auto kept = arranged<SwizzledRows>(kept_tile);
    const auto dS_of = [&](int n) {
        return ScoreGradients<std::remove_const_t<decltype(dS_tile)>, B_r>{dS_tile, n % Shape::dS_stages * B_c};
    };
    const auto passing = [&](int n, int which) {  // 0: Q_i, 1: dO_i
        return arranged<SwizzledRows>(passing_tile, (n % stages * 2 + which) * B_r);
    };
    const auto fetch = [&](int n, QueryTile at) {
        const int h = at.head, first_query = at.number * B_r;
        copy_rows_async<fetching, B_r, D>(passing(n, 0), t.Q.slice(b, h), first_query, t.vector_rows);
        copy_rows_async<fetching, B_r, D>(passing(n, 1), t.dO.slice(b, h), first_query, t.vector_rows);
        using One = simt::Vector<float, 1>;
#pragma unroll
        for (int i = 0; i < B_r; i += fetching) {
            const int r = i + int(threadIdx.x);
            if (r < B_r) {
                simt::copy_async_or_zero(rows.template vec<One>(n % stages * 2, r), t.LSE.slice(b), h, first_query + r);
                simt::copy_async_or_zero(rows.template vec<One>(n % stages * 2 + 1, r), t.D.slice(b), h,
                                         first_query + r);
            }
        }
    };

    copy_rows_async<threads, B_c, D>(kept, K, first_key, t.vector_rows);
    copy_rows_async<threads, B_c, D>(arranged<SwizzledRows>(kept_tile, B_c), V, first_key, t.vector_rows);
    const int warp = simt::same_in_warp(threadIdx.x / 32), pair = warp % Shape::pairs;
    const int of_dS = warp / Shape::pairs;  // 0: the warp of P, whose rows of `kept` are K_j's; 1: that of dS, V_j's
    QueryTile at{kv_head * heads, first_tile}, before = at;
    if (steps > 0 && !of_dS) fetch(0, at);
    simt::commit_copies();
    const MmaOwner<M> owner;
    const int first = first_key - of_dS * B_c;  // row r of `kept` is key first + r
    const float exponent = t.scale * kLog2E;
    simt::FragmentC sum[M][D / 8] = {};  // dV_j or dK_j
    bool odd_keys = false;               // K_j holds infinities or NaN
    if constexpr (Adds) {
        simt::wait_copies<0>();
        __syncthreads();  // K_j is complete before anyone reads it
        odd_keys = holds_non_finite<threads, B_c, D>(kept);
    }

    const auto handed_over = [&](int m, int k) -> decltype(auto) {  // P_ij^T: a vector for each lane and operand
        return P_tile.template vec<simt::WideVector<T>>((pair * Shape::fragments + k * M + m) * 32 + threadIdx.x % 32,
                                                        0);
    };
    const auto gather_dq = [&]<class Columns>(Columns, int n, QueryTile at) {
        const DqShare<Shape> share(pair);
        const auto add = [&]<int width>(std::integral_constant<int, width>, const auto& multiply) {
            add_dq<T, Shape, Columns, width>(t.dQ_sum.slice(b, at.head), at.number, share, dS_of(n), kept, multiply);
        };
        const int first_query = at.number * B_r;
        if (odd_keys && first_query < full_from)
            add(std::integral_constant<int, 16>(), [&](auto& dQ, const auto& operand, const auto& K_columns) {
                multiply_seen<T, B_c>(dQ, operand, K_columns, [&](int m, int half, int key) {
                    return first_key + key <
                           visible_keys(mask, first_query + share.row(m, half), query_length, key_length);
                });
            });
        else
            add(std::integral_constant<int, Columns::width>(),
                [&](auto& dQ, const auto& operand, const auto& K_columns) {
                    multiply_values<T, B_c>(dQ, operand, K_columns);
                });
    };

    const auto step = [&]<Stage stage>(std::integral_constant<Stage, stage>, int n) {
        constexpr bool edge = stage == Stage::edge;
        const int first_query = at.number * B_r;
        simt::wait_copies<0>();
        __syncthreads();  // Q_i, dO_i, LSE_i, D_i are complete before anyone reads them, and dS_ij of step n - 1; and
                          // everyone is done with step n - 1 and dS_ij of n - 2, whose stages are filled in this
        const auto rows_of = [&](int which) {
            return [&rows, row = n % stages * 2 + which](int column) {
                return rows.template vec<simt::Vector<float, 2>>(row, column);
            };
        };
        const auto keep_dS = [&](int m, int h, int query, const simt::Vector<T, 2>& neighbours) {
            if constexpr (Adds) dS_of(n).pair((pair * M + m) * 16 + 8 * h, query) = neighbours;
        };
        const bool careful = edge && holds_non_finite<threads, 2 * B_r, D>(passing(n, 0));
        Seeing<M> seeing;
        if constexpr (edge) {
            seeing.until = query_length - first_query;
#pragma unroll
            for (int m = 0; m < M; ++m)
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    const int key = first + owner.row(m, h);
                    seeing.from[m][h] =
                        key < key_length ? first_seeing(mask, key, query_length, key_length) - first_query : B_r;
                }
        }
        if (Adds && of_dS && n > 0) gather_dq(typename Shape::ColumnsOfDS(), n - 1, before);

        simt::FragmentC X[M][B_r / 8] = {};  // S_ij^T or dP_ij^T
        multiply_keys<T, D>(
            X, [&](int m, int k) { return query_fragment<T>(kept, owner, m, k); }, passing(n, of_dS));
        simt::FragmentA<T> W[M][B_r / 16];  // P_ij^T or dS_ij^T
        if (of_dS) {
            simt::sync_threads(1, threads);  // P_ij^T is complete; no warp of dS reads dS_ij of step n - 1 any more
            make_score_gradients<T, edge>(W, X, rows_of(1), seeing, owner, handed_over, keep_dS);
        } else {
            make_weights<T, edge>(
                W, X, exponent, rows_of(0), seeing, owner, handed_over,
                [&](int query, int row, float s) { watch_score(first_query + query, first + row, s * t.scale); });
            simt::arrive_threads(1, threads);
            if (n + 1 < steps) fetch(n + 1, after(at));
            simt::commit_copies();
        }
        const auto operand = [&](int m, int k) { return W[m][k]; };
        if (careful)
            multiply_seen<T, B_r>(sum, operand, passing(n, 1 - of_dS),
                                  [&](int m, int h, int query) { return query >= seeing.from[m][h]; });
        else
            multiply_values<T, B_r>(sum, operand, passing(n, 1 - of_dS));
        if constexpr (Adds && Shape::dq_of_P > 0)  // dS_ij of this step has another place
            if (!of_dS && n > 0) gather_dq(typename Shape::ColumnsOfP(), n - 1, before);
    };

    for (int n = 0; n < steps; ++n) {
        if (at.number * B_r < full_from || at.number * B_r + B_r > query_length)
            step(std::integral_constant<Stage, Stage::edge>(), n);
        else
            step(std::integral_constant<Stage, Stage::full>(), n);
        before = at;
        at = after(at);
    }

    simt::wait_copies<0>();
    if constexpr (Adds) {
        __syncthreads();  // dS_ij of the last step is complete before it is multiplied
        if (of_dS && steps > 0) gather_dq(typename Shape::ColumnsOfDS(), steps - 1, before);
        if constexpr (Shape::dq_of_P > 0)
            if (!of_dS && steps > 0) gather_dq(typename Shape::ColumnsOfP(), steps - 1, before);
    }
    __syncthreads();  // everyone is done with K_j (and the copies of it have come) before dV_j takes its place
    const auto result = of_dS ? t.dK.slice(b, kv_head) : t.dV.slice(b, kv_head);
    store_sum<D>(result, first, kept, sum, of_dS ? t.scale : 1.0f, owner, t.vector_rows);
}

/// Shared memory that a block needs.
std::size_t mma_dkdv_shared_bytes(const BackwardArguments& a) {
    std::size_t bytes = 0;
    with_mma_dkdv_shape(a, [&]<class Shape>(Shape) { bytes = Shape::shared_bytes; });
    return bytes;
}

/// The workspace that blocks add dQ to.
DqSumShape mma_dq_sum_shape(const BackwardArguments& a) {
    DqSumShape shape{};
    with_mma_dkdv_shape(a, [&]<class Shape>(Shape) {
        shape = {.tiles = ceil_div(a.query_length(), Shape::B_r), .elements = Shape::B_r * Shape::D};
    });
    return shape;
}

/// K and V once; for each key tile and each query head of its group, Q, dO, LSE and D from the first query tile on that
/// sees the key tile; dK and dV once. Where blocks add to dQ_sum, each of these query tiles, whole.
GlobalBytes mma_dkdv_bytes(const BackwardArguments& a) {
    GlobalBytes bytes;
    with_mma_dkdv_shape(a, [&]<class Shape>(Shape) {
        constexpr int B_c = Shape::B_c, B_r = Shape::B_r;
        const std::uint64_t kv_heads = a.batch() * a.kv_heads(), heads = a.batch() * a.query_heads();
        const std::uint64_t row = a.head_dim() * element_bytes(a.q.type);
        std::uint64_t passing = 0, tiles = 0;
        for (std::int64_t first_key = 0; first_key < a.key_length(); first_key += B_c) {
            const int first = first_seeing(a.mask, int(first_key), int(a.query_length()), int(a.key_length()));
            if (first == a.query_length()) continue;  // nobody sees a key of the tile
            passing += a.query_length() - first / B_r * B_r;
            tiles += ceil_div(a.query_length(), B_r) - first / B_r;
        }
        bytes.read = kv_heads * 2 * row * a.key_length() + heads * passing * (2 * row + 2 * sizeof(float));
        bytes.written = kv_heads * 2 * row * a.key_length();
        if (a.dq_sum.rank) bytes.written += heads * tiles * B_r * Shape::D * sizeof(float);
    });
    return bytes;
}

/// Launches the kernel compiled for the problem's dtype and head dimension, with tiles that the device has room for.
void launch_mma_dkdv(const BackwardArguments& a) {
    with_element_type_of(MmaElements(), a.q.type, [&]<class T>(std::type_identity<T>) {
        with_mma_dkdv_shape(a, [&]<class Shape>(Shape) {
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(ceil_div(a.key_length(), Shape::B_c), a.kv_heads(), a.batch());
            config.blockDim = dim3(Shape::threads);
            config.dynamicSmemBytes = Shape::shared_bytes;
            config.stream = static_cast<cudaStream_t>(a.stream);
            const auto launch = [&](auto kernel) {
                simt::launch("mma_dkdv_kernel", config, kernel, backward_tensors<T>(a), a.mask);
            };
            if (a.dq_sum.rank)
                launch(mma_dkdv_kernel<T, Shape, true>);
            else
                launch(mma_dkdv_kernel<T, Shape, false>);
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
