#pragma once

#include <algorithm>

#include "common/attention/dispatch.cuh"
#include "common/attention/warpgroup_problem.cuh"
#include "phase7_hopper/fp8/compiled_codes.cuh"
#include "phase7_hopper/fp8/fp8_arguments.h"
#include "phase7_hopper/fp8/fp8_tile.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// FlashAttention-3's forward pass in 8 bits: twice the products of 16 bits in the same time.
///
/// Changed since hopper_parts.cuh:
///
///   - Q, K and V come as codes with an exponent for each block of rows: the scores of a tile have one scale, its values
///     another, which goes into the weights (fp8_tile.cuh);
///   - wgmma takes 8-bit operands only with k along the rows. For Q K^T that is how Q and K lie. For P V the values must
///     be turned round: the four warps that have nothing to multiply do so, tile by tile, in a third ring;
///   - P_ij goes from scores to operand as before, without a lane asking another: the order of keys in V_j^T is the one
///     in which lanes have weights;
///   - maxima are raised only when weights would no longer fit, which one vote finds out.
///
///   grid    x = the query tiles of all heads, the longest first
///   block   D <= 128: 512 threads, three warpgroups consume 64 rows each; D = 256: 384, two
///           warpgroup 0: warp 0 fetches, and all four warps transpose 32 keys of each tile
///
///   shared  Q_i    [B_r, D]    192 D     (128 D for D = 256)
///           K_j    [2 B_c, D]  256 D     two stages
///           V_j    [2 B_c, D]  256 D     two stages, as TMA brings it
///           V_j^T  [2 D, B_c]  256 D     two stages, as wgmma wants it
///           barriers           112
///           123,008 bytes for D = 128, where B_c = 128
///
///   global  reads Q once, and of K and V the key tiles that the tile's last query sees any key of, all with their
///           exponents; writes O and LSE once
// clang-format on

/// Rows of whole panels of 8-bit elements.
template <int D>
inline constexpr simt::Swizzle kCodeSwizzle = D % 128 == 0 ? simt::Swizzle::b128 : simt::Swizzle::b64;

/// Tiles and registers for head dimension D.
template <int HeadDim>
struct Fp8Shape {
    static constexpr int D = HeadDim;                                      ///< the head dimension
    static constexpr int consumers = D <= 128 ? 3 : 2;                     ///< warpgroups that multiply
    static constexpr int B_r = 64 * consumers;                             ///< queries
    static constexpr int B_c = kKeyBlock;                                  ///< keys
    static constexpr int stages = 2;                                       ///< of K_j, V_j and V_j^T
    static constexpr int threads = simt::kWarpgroup * (1 + consumers);     ///< of a block
    static constexpr int producer_registers = consumers == 3 ? 32 : 40;    ///< of each thread that transposes
    static constexpr int consumer_registers = consumers == 3 ? 160 : 232;  ///< of each that multiplies
    static constexpr std::size_t shared_bytes = simt::panel_bytes<std::uint8_t>(B_r, D) +
                                                2 * simt::panel_bytes<std::uint8_t>(stages * B_c, D) +
                                                simt::panel_bytes<std::uint8_t>(stages * D, B_c) + 128;  ///< of a block
};

/// What the kernel is given besides the maps.
template <class T, class Value>
struct Fp8Problem : ForwardProblem<Value> {
    simt::GlobalTensor<T, 4> O;                    ///< [B, Hq, Sq, d]
    simt::GlobalTensor<const int, 3> Q_exponents;  ///< [B, Hq, blocks of kQueryBlock rows]
    simt::GlobalTensor<const int, 3> K_exponents;  ///< [B, Hkv, blocks of kKeyBlock rows]
    simt::GlobalTensor<const int, 3> V_exponents;  ///< [B, Hkv, blocks of kKeyBlock rows]
    bool vector_rows;                              ///< of O: four elements may be written at a time
};

/// O of T; V and the weights in codes of Value.
template <class T, class Value, class Shape>
__global__ void __launch_bounds__(Shape::threads, 1)
    hopper_fp8_kernel(const __grid_constant__ simt::TensorMap<simt::e4m3, 4> Q_map,
                      const __grid_constant__ simt::TensorMap<simt::e4m3, 4> K_map,
                      const __grid_constant__ simt::TensorMap<Value, 4> V_map, Fp8Problem<T, Value> p) {
    constexpr int D = Shape::D, B_r = Shape::B_r, B_c = Shape::B_c, stages = Shape::stages, parts = B_c / 32;
    constexpr int consumer_warps = 4 * Shape::consumers;
    const QueryTile tile = QueryTile::numbered(p, int(blockIdx.x), B_r);
    const KeyTiles tiles = tile.key_tiles_of(p, B_r, B_c);

    simt::SharedArena arena;
    const auto Q_i = arena.template panels<simt::e4m3, B_r, D, kCodeSwizzle<D>>("Q_i");
    const auto K_ring = arena.template panels<simt::e4m3, stages * B_c, D, kCodeSwizzle<D>>("K_j");
    const auto V_ring = arena.template panels<Value, stages * B_c, D, kCodeSwizzle<D>>("V_j");
    const auto V_t_ring = arena.template panels<Value, stages * D, B_c, simt::Swizzle::b128>("V_j^T");
    const auto Q_full = arena.template barriers<1>("Q_i full");
    const auto K_full = arena.template barriers<stages>("K_j full");
    const auto K_empty = arena.template barriers<stages>("K_j empty");
    const auto V_full = arena.template barriers<stages>("V_j full");
    const auto V_empty = arena.template barriers<stages>("V_j empty");
    const auto V_t_full = arena.template barriers<stages>("V_j^T full");
    const auto V_t_empty = arena.template barriers<stages>("V_j^T empty");
    if (threadIdx.x == 0) {
        Q_full[0].init(1);
        for (int s = 0; s < stages; ++s) {
            K_full[s].init(1);
            K_empty[s].init(consumer_warps);
            V_full[s].init(1);
            V_empty[s].init(4);  // of the warps that transpose
            V_t_full[s].init(4);
            V_t_empty[s].init(consumer_warps);
        }
        simt::publish_barriers();
    }
    __syncthreads();  // the barriers are there before anyone waits for one

    const auto release = [](const auto& empty, auto& at) {
        if (simt::elect_one()) empty[at.stage].arrive();  // of each warp
        at.next();
    };
    const int warpgroup = simt::same_in_warp(int(threadIdx.x) / simt::kWarpgroup);
    if (warpgroup == 0) {
        simt::release_registers<Shape::producer_registers>();
        const int warp = simt::same_in_warp(int(threadIdx.x) / 32);
        simt::RingPosition<stages> k, v, v_asked, v_t;
        // One lane of warp 0 asks for a tile, and goes on.
        const auto ask_for = [&](const auto& ring, const auto& map, const auto& full, const auto& empty, auto& at,
                                 int j) {
            if (warp != 0 || j < 0) return;
            if (simt::elect_one()) {
                empty[at.stage].wait(at.parity ^ 1);  // whoever used the stage last is done with it
                full[at.stage].arrive_expecting(B_c * D);
                simt::tma_load<simt::Reuse::soon>(ring.template rows_from<B_c>(at.stage * B_c), map,
                                                  {tile.b, tile.kv_head, j * B_c, 0}, full[at.stage]);
            }
            at.next();
        };
        ask_for(K_ring, K_map, K_full, K_empty, k, tiles.visited - 1);
        if (warp == 0 && tiles.visited > 0 && simt::elect_one()) {
            Q_full[0].arrive_expecting(int(Q_i.bytes));
            simt::tma_load<simt::Reuse::none>(Q_i, Q_map, {tile.b, tile.h, tile.first_query, 0}, Q_full[0]);
        }
        ask_for(V_ring, V_map, V_full, V_empty, v_asked, tiles.visited - 1);
#pragma unroll 1
        for (int j = tiles.visited - 1; j >= 0; --j) {
            // A tile ahead: the copies run while this one is transposed.
            ask_for(V_ring, V_map, V_full, V_empty, v_asked, j - 1);
            ask_for(K_ring, K_map, K_full, K_empty, k, j - 1);
            __syncwarp();  // the lanes are together again
            V_full[v.stage].wait(v.parity);
            V_t_empty[v_t.stage].wait(v_t.parity ^ 1);
            transpose_values(V_ring.template rows_from<B_c>(v.stage * B_c),
                             V_t_ring.template rows_from<D>(v_t.stage * D), warp);
            simt::show_to_async();  // the tensor cores read next what these threads wrote
            __syncwarp();           // the warp's share is written and shown, and its reads of V_j are over
            release(V_empty, v);
            release(V_t_full, v_t);
        }
    } else {
        simt::claim_registers<Shape::consumer_registers>();
        simt::RingPosition<stages> k;  // K_j and V_j^T have the same stage
        const WarpgroupOwner owner{.first_row = 64 * (warpgroup - 1), .first_query = tile.first_query};
        const auto Q_exponents = p.Q_exponents.slice(tile.b, tile.h);
        const auto K_exponents = p.K_exponents.slice(tile.b, tile.kv_head);
        const auto V_exponents = p.V_exponents.slice(tile.b, tile.kv_head);
        // Rows that the last tile has beyond the queries have no block of their own; nobody looks at what they give.
        const int query_block = min((tile.first_query + owner.first_row) / kQueryBlock, int(Q_exponents.extent(0)) - 1);
        const int query_exponent = Q_exponents(query_block);
        simt::Accumulator<D> O_i;
        clear_rows(O_i);
        RunningRows rows;

        // One step of the loop, compiled for full tiles and for those at the edge.
        const auto step = [&]<bool edge>(std::bool_constant<edge>, int j) {
            const int value_exponent = V_exponents(j);
            const float exponent = p.scale * kLog2E * power_of_two(min(query_exponent + K_exponents(j), 127));
            const auto V_t = V_t_ring.template rows_from<D>(k.stage * D);
            simt::Accumulator<B_c> S_ij;
            K_full[k.stage].wait(k.parity);
            simt::begin_products(S_ij);
#pragma unroll
            for (int c = 0; c < D; c += 32)
                simt::multiply(S_ij, simt::k_major(Q_i, owner.first_row, c),
                               simt::k_major(K_ring.template rows_from<B_c>(k.stage * B_c), 0, c), c != 0);
            simt::commit_products();
            simt::wait_products<0>(S_ij);
            if (simt::elect_one()) K_empty[k.stage].arrive();  // of each warp: the tensor cores have read K_j
            if constexpr (edge) {
                const int visible[2] = {tile.visible(p, owner.row(0)) - j * B_c,
                                        tile.visible(p, owner.row(1)) - j * B_c};
                hide_keys(S_ij, owner, visible);
            }

            raise_maxima(S_ij, O_i, rows, exponent, float(value_exponent));
            float sums[2] = {0.0f, 0.0f}, subtracted[2];
#pragma unroll
            for (int half = 0; half < 2; ++half)
                subtracted[half] = safe_maximum(rows.m[half]) - float(value_exponent) - kLargestWeightExponent;
            simt::OperandA<Value> P_ij[parts];
#pragma unroll
            for (int n = 0; n < parts; ++n) {
                weigh_part(S_ij, sums, subtracted, exponent, n);
                P_ij[n] = to_operand_of_8_bits<Value>(S_ij, n);
                if (n == 0) {
                    V_t_full[k.stage].wait(k.parity);
                    simt::begin_products(O_i, P_ij[n]);
                } else {
                    simt::begin_products(P_ij[n]);
                }
                simt::multiply(O_i, P_ij[n], simt::k_major(V_t, 0, 32 * n), true);
                simt::commit_products();
            }
#pragma unroll
            for (int half = 0; half < 2; ++half)
                rows.l[half] = fmaf(sums[half], power_of_two(-value_exponent), rows.l[half]);
            simt::wait_products<0>(O_i, P_ij);
            release(V_t_empty, k);
        };

        if (tiles.visited > 0) Q_full[0].wait(0);
        int j = tiles.visited - 1;
        const int seen = tile.visible(p, owner.first_row + 63);  // by any of the warpgroup's rows
#pragma unroll 1
        for (; j * B_c >= seen && j >= 0; --j) {
            K_full[k.stage].wait(k.parity);  // or an arrival of this round would count for the one before
            if (simt::elect_one()) K_empty[k.stage].arrive();
            V_t_full[k.stage].wait(k.parity);
            release(V_t_empty, k);
        }
#pragma unroll 1
        for (; j >= tiles.full; --j) step(std::true_type(), j);
#pragma unroll 1
        for (; j >= 0; --j) step(std::false_type(), j);

        const int visible[2] = {tile.visible(p, owner.row(0)), tile.visible(p, owner.row(1))};
        store_rows_of_8_bits(O_i, rows, owner, p.O.slice(tile.b, tile.h), p.LSE.slice(tile.b, tile.h), visible,
                             p.vector_rows);
    }
}

template <class T, class Value, int D>
void launch_fp8_forward(const Fp8Arguments& f) {
    using Shape = Fp8Shape<D>;
    const auto Q = simt::tile_map<simt::e4m3, 4, Shape::B_r, D, kCodeSwizzle<D>>(f.q);
    const auto K = simt::tile_map<simt::e4m3, 4, Shape::B_c, D, kCodeSwizzle<D>>(f.k);
    const auto V = simt::tile_map<Value, 4, Shape::B_c, D, kCodeSwizzle<D>>(f.v);
    const Fp8Problem<T, Value> p{{f, Shape::B_r},
                                 simt::global_tensor<T, 4>(f.out),
                                 simt::global_tensor<const int, 3>(f.q_exponents),
                                 simt::global_tensor<const int, 3>(f.k_exponents),
                                 simt::global_tensor<const int, 3>(f.v_exponents),
                                 f.out.rows_aligned_to_16_bytes()};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(p.tiles);
    config.blockDim = dim3(Shape::threads);
    config.dynamicSmemBytes = Shape::shared_bytes;
    config.stream = static_cast<cudaStream_t>(f.stream);
    simt::launch("hopper_fp8_kernel", config, hopper_fp8_kernel<T, Value, Shape>, Q, K, V, p);
}

/// Shared memory that a block needs.
std::size_t hopper_fp8_shared_bytes(const Fp8Arguments& f) {
    std::size_t bytes = 0;
    with_first_that_holds(Fp8HeadDims(), f.head_dim(),
                          [&]<int D>(std::integral_constant<int, D>) { bytes = Fp8Shape<D>::shared_bytes; });
    return bytes;
}

/// What the blocks of a head read: codes of the queries whose tile visits any key, and of K and V in the key tiles that
/// each tile of queries visits. Of exponents, each thread of a warpgroup reads that of its queries, and two for each
/// key tile that its warpgroup multiplies.
template <class Shape>
std::uint64_t bytes_read_by_a_head(const AttentionArguments& a) {
    const int queries = int(a.query_length()), keys = int(a.key_length());
    std::uint64_t rows = 2 * visited_keys(a, Shape::B_r, Shape::B_c), exponents = 0;
    for (int first_query = 0; first_query < queries; first_query += Shape::B_r) {
        const int visited = key_tiles(a.mask, first_query, Shape::B_r, Shape::B_c, queries, keys).visited;
        if (visited > 0) rows += std::min(Shape::B_r, queries - first_query);
        for (int row = 0; row < Shape::B_r; row += kQueryBlock) {
            const int seen = visible_keys(a.mask, first_query + row + kQueryBlock - 1, queries, keys);
            exponents += 1 + 2 * std::min(visited, (seen + Shape::B_c - 1) / Shape::B_c);
        }
    }
    return rows * Shape::D + exponents * simt::kWarpgroup * sizeof(int);
}

/// That of all query heads; O and LSE are written once.
GlobalBytes hopper_fp8_kernel_bytes(const Fp8Arguments& f) {
    GlobalBytes bytes;
    with_first_that_holds(Fp8HeadDims(), f.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
        const std::uint64_t heads = f.batch() * f.query_heads();
        bytes.read = heads * bytes_read_by_a_head<Fp8Shape<D>>(f);
        bytes.written = heads * f.query_length() * (2 * f.head_dim() + sizeof(float));
    });
    return bytes;
}

/// Launches the kernel compiled for the type of O, the codes of V and the columns of the codes.
void launch_hopper_fp8(const Fp8Arguments& f) {
    with_element_type_of(MmaElements(), f.out.type, [&]<class T>(std::type_identity<T>) {
        with_element_type_of(Fp8Elements(), f.v.type, [&]<class Value>(std::type_identity<Value>) {
            with_first_that_holds(Fp8HeadDims(), f.head_dim(),
                                  [&]<int D>(std::integral_constant<int, D>) { launch_fp8_forward<T, Value, D>(f); });
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
