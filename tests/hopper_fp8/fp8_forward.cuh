// FlashAttention-3's forward pass in 8 bits.

#pragma once

#include "tests/hopper_forward/forward.cuh"
#include "tests/hopper_fp8/fp8_softmax.cuh"

namespace ladder::SIMT_MACHINE {

/// Rows of whole panels of 8-bit elements.
template <int D>
inline constexpr simt::Swizzle kCodeSwizzle = D % 128 == 0 ? simt::Swizzle::b128 : simt::Swizzle::b64;

/// What can be chosen.
template <int HeadDim, int Consumers, int Keys, int Stages, int ValueStages, bool Overlaps, bool TakesTurns = false, int Polynomial = 0, int Ablation = 0>
struct Fp8Shape {
    static constexpr int D = HeadDim, consumers = Consumers, B_r = 64 * Consumers, B_c = Keys;
    static constexpr int transposed_columns = (Keys + 127) / 128 * 128;
    static constexpr bool overlaps = Overlaps, takes_turns = TakesTurns;
    static constexpr int ablation = Ablation;
    static constexpr int stages = Stages, value_stages = ValueStages;  ///< of K_j and V_j^T, and of V_j as it came
    static constexpr int polynomial = Polynomial;                      ///< every so manieth exponential is one
    static constexpr int threads = 128 * (Consumers + 1);
    static constexpr int producer_registers = Consumers == 3 ? 32 : 40;
    static constexpr int consumer_registers = Consumers == 3 ? 160 : 232;
    static constexpr std::size_t shared_bytes =
        simt::panel_bytes<std::uint8_t>(B_r, D) + simt::panel_bytes<std::uint8_t>((stages + value_stages) * B_c, D) +
        simt::panel_bytes<std::uint8_t>(stages * D, transposed_columns) + 256;
};

/// What the kernel is given besides the maps of Q, K and V.
template <class T>
struct Fp8Problem : HopperProblem {
    simt::GlobalTensor<T, 4> O;                                     ///< [B, Hq, Sq, d]
    simt::GlobalTensor<const int, 3> Q_exponents;                   ///< [B, Hq, blocks of kQueryBlock]
    simt::GlobalTensor<const int, 3> K_exponents, V_exponents;      ///< [B, Hkv, blocks of kKeyBlock]
    bool vector_rows;                                               ///< O's rows may be written four elements at a time
};

/// A warp fetches, three transpose V_j, three warpgroups multiply.
template <class Code, class T, class Shape>
__global__ void __launch_bounds__(Shape::threads, 1)
    fp8_forward_kernel(const __grid_constant__ simt::TensorMap<Code, 4> Q_map,
                       const __grid_constant__ simt::TensorMap<Code, 4> K_map,
                       const __grid_constant__ simt::TensorMap<Code, 4> V_map, Fp8Problem<T> p) {
    constexpr int D = Shape::D, B_r = Shape::B_r, B_c = Shape::B_c, stages = Shape::stages;
    constexpr int value_stages = Shape::value_stages;
    constexpr int consumer_warps = 4 * Shape::consumers, transposing_warps = 4;
    const int query_tiles = (p.query_length + B_r - 1) / B_r;

    simt::SharedArena arena;
    const auto Q_i = arena.template panels<Code, B_r, D, kCodeSwizzle<D>>("Q_i");
    const auto K_ring = arena.template panels<Code, stages * B_c, D, kCodeSwizzle<D>>("K_j");
    const auto V_ring = arena.template panels<Code, value_stages * B_c, D, kCodeSwizzle<D>>("V_j");
    const auto V_t_ring = arena.template panels<Code, stages * D, Shape::transposed_columns, simt::Swizzle::b128>("V_j^T");
    const auto Q_full = arena.template barriers<1>("Q_i full");
    const auto K_full = arena.template barriers<stages>("K_j full");
    const auto K_empty = arena.template barriers<stages>("K_j empty");
    const auto V_full = arena.template barriers<value_stages>("V_j full");
    const auto V_empty = arena.template barriers<value_stages>("V_j empty");
    const auto V_t_full = arena.template barriers<stages>("V_j^T full");
    const auto V_t_empty = arena.template barriers<stages>("V_j^T empty");
    if (threadIdx.x == 0) {
        Q_full[0].init(1);
        for (int s = 0; s < stages; ++s) {
            K_full[s].init(1);
            K_empty[s].init(consumer_warps);
            V_t_full[s].init(transposing_warps);
            V_t_empty[s].init(consumer_warps);
        }
        for (int s = 0; s < value_stages; ++s) {
            V_full[s].init(1);
            V_empty[s].init(transposing_warps);
        }
        simt::publish_barriers();
    }
    __syncthreads();  // the barriers are there before anyone waits for one

    const HopperWork work(p, int(blockIdx.x), query_tiles, B_r);
    const int b = work.b(p), h = work.h(p), kv_head = work.kv_head(p);
    const KeyTiles tiles = key_tiles(p.mask, work.first_query, B_r, B_c, p.query_length, p.key_length);
    const int warpgroup = simt::same_in_warp(int(threadIdx.x) / simt::kWarpgroup);
    const auto release = [](const auto& empty, auto& at) {
        if (simt::elect_one()) empty[at.stage].arrive();  // of each warp
        at.next();
    };
    if (warpgroup == 0) {
        simt::release_registers<Shape::producer_registers>();
        const int warp = simt::same_in_warp(int(threadIdx.x) / 32);
        simt::RingPosition<stages> k, t;
        simt::RingPosition<value_stages> fetched, v;
        const auto fetch = [&](const auto& ring, const auto& map, const auto& full, const auto& empty, auto& at, int j) {
            empty[at.stage].wait(at.parity ^ 1);  // whoever used the stage last is done with it
            full[at.stage].arrive_expecting(B_c * D);
            simt::tma_load<simt::Reuse::soon>(ring.template rows_from<B_c>(at.stage * B_c), map,
                                              {b, kv_head, j * B_c, 0}, full[at.stage]);
            at.next();
        };
        const auto fetch_tile = [&](int j) {
            fetch(K_ring, K_map, K_full, K_empty, k, j);
            if (j == tiles.visited - 1) {
                Q_full[0].arrive_expecting(int(Q_i.bytes));
                simt::tma_load<simt::Reuse::none>(Q_i, Q_map, {b, h, work.first_query, 0}, Q_full[0]);
            }
            fetch(V_ring, V_map, V_full, V_empty, fetched, j);
        };
        const bool fetches = warp == 0 && simt::elect_one();
        if (fetches && tiles.visited > 0) fetch_tile(tiles.visited - 1);
#pragma unroll 1
        for (int j = tiles.visited - 1; j >= 0; --j) {
            if (fetches && j > 0) fetch_tile(j - 1);
            __syncwarp();
            V_full[v.stage].wait(v.parity);
            V_t_empty[t.stage].wait(t.parity ^ 1);
            if constexpr (!(Shape::ablation & 2))
                transpose_values(V_ring.template rows_from<B_c>(v.stage * B_c),
                                 V_t_ring.template rows_from<D>(t.stage * D), warp, transposing_warps);
            simt::show_to_async();
            __syncwarp();  // the warp's share is written, and its reads of V_j are over
            release(V_empty, v);
            release(V_t_full, t);
        }
    } else {
        simt::claim_registers<Shape::consumer_registers>();
        const int consumer = warpgroup - 1;
        const WarpgroupOwner owner{64 * consumer};
        const auto seen_by = [&](int row) {
            return visible_keys(p.mask, work.first_query + row, p.query_length, p.key_length);
        };
        simt::Accumulator<D> O_i;
#pragma unroll
        for (int i = 0; i < D / 2; ++i) O_i[i] = 0.0f;
        RunningRows rows;
        if (tiles.visited > 0) {
            simt::RingPosition<stages> k;
            const int query_block = min((work.first_query + owner.first_row) / kQueryBlock, int(p.Q_exponents.extent(2)) - 1);
            const int query_exponent = p.Q_exponents(b, h, query_block);
            const auto K_exponents = p.K_exponents.slice(b, kv_head), V_exponents = p.V_exponents.slice(b, kv_head);
            Q_full[0].wait(0);
            constexpr int parts = B_c / 32;
            const auto take_turn = [&] {
                if constexpr (Shape::takes_turns) simt::sync_threads(1 + consumer, 256);
            };
            const auto pass_turn = [&] {
                if constexpr (Shape::takes_turns)
                    simt::arrive_threads(consumer == Shape::consumers - 1 ? 1 : 2 + consumer, 256);
            };
            if (Shape::takes_turns && consumer == Shape::consumers - 1) simt::arrive_threads(1, 256);  // the first turn
            if constexpr (Shape::overlaps) {
                simt::RingPosition<stages> v;
                simt::OperandA<Code> P_ij[parts];
                const auto begin_scores_of = [&](auto& S_ij) {
                    simt::begin_products(S_ij);
#pragma unroll
                    for (int c = 0; c < D; c += 32)
                        simt::multiply(S_ij, simt::k_major(Q_i, owner.first_row, c),
                                       simt::k_major(K_ring.template rows_from<B_c>(k.stage * B_c), 0, c), c != 0);
                    simt::commit_products();
                };
                const auto begin_values_of = [&] {
                    simt::begin_products(O_i, P_ij);
#pragma unroll
                    for (int n = 0; n < parts; ++n)
                        simt::multiply(O_i, P_ij[n], simt::k_major(V_t_ring.template rows_from<D>(v.stage * D), 0, 32 * n), true);
                    simt::commit_products();
                };
                const auto soften = [&]<bool edge>(std::bool_constant<edge>, auto& S_ij, int j, float exponent, float value_exponent) {
                    if constexpr (edge) {
                        const int visible[2] = {seen_by(owner.row(0)) - j * B_c, seen_by(owner.row(1)) - j * B_c};
                        hide_keys(S_ij, owner, visible);
                    }
                    raise_maxima(S_ij, rows, exponent, value_exponent);
                    float sums[2] = {0.0f, 0.0f}, subtracted[2];
#pragma unroll
                    for (int half = 0; half < 2; ++half)
                        subtracted[half] = safe_maximum(rows.m[half]) - value_exponent - kLargestWeightExponent;
#pragma unroll
                    for (int n = 0; n < parts; ++n) weigh_part<edge ? 0 : Shape::polynomial>(S_ij, sums, subtracted, exponent, n);
#pragma unroll
                    for (int half = 0; half < 2; ++half)
                        rows.l[half] = fmaf(sums[half], power_of_two(-int(value_exponent)), rows.l[half]);
                };
                const auto convert = [&](auto& S_ij) {
#pragma unroll
                    for (int n = 0; n < parts; ++n) P_ij[n] = to_operand_of_8_bits<Code>(S_ij, n);
                };
                int j = tiles.visited - 1;
                {
                    const float value_exponent = float(V_exponents(j));
                    const float exponent = p.scale * power_of_two(query_exponent + K_exponents(j));
                    simt::Accumulator<B_c> S_ij;
                    K_full[k.stage].wait(k.parity);
                    begin_scores_of(S_ij);
                    simt::wait_products<0>(S_ij);
                    release(K_empty, k);
                    if (j >= tiles.full) soften(std::true_type(), S_ij, j, exponent, value_exponent);
                    else soften(std::false_type(), S_ij, j, exponent, value_exponent);
                    convert(S_ij);
                }
                const auto step = [&]<bool edge>(std::bool_constant<edge> at_edge) {
                    --j;
                    const float value_exponent = float(V_exponents(j));
                    const float exponent = p.scale * power_of_two(query_exponent + K_exponents(j));
                    simt::Accumulator<B_c> S_ij;
                    K_full[k.stage].wait(k.parity);
                    take_turn();
                    begin_scores_of(S_ij);
                    if constexpr (D > 128) rescale_rows<true>(O_i, rows);
                    V_t_full[v.stage].wait(v.parity);
                    begin_values_of();
                    pass_turn();
                    simt::wait_products<1>(S_ij);
                    release(K_empty, k);
                    soften(at_edge, S_ij, j, exponent, value_exponent);
                    simt::wait_products<0>(O_i, P_ij);
                    release(V_t_empty, v);
                    convert(S_ij);
                    if constexpr (D <= 128) rescale_rows<true>(O_i, rows);
                };
#pragma unroll 1
                while (j > tiles.full) step(std::true_type());
#pragma unroll 1
                while (j > 0) step(std::false_type());
                if constexpr (D > 128) rescale_rows<true>(O_i, rows);
                V_t_full[v.stage].wait(v.parity);
                begin_values_of();
                simt::wait_products<0>(O_i, P_ij);
                release(V_t_empty, v);
            } else {
            const auto step = [&]<bool edge>(std::bool_constant<edge>, int j) {
                const int value_exponent = V_exponents(j);
                const float exponent = p.scale * power_of_two(query_exponent + K_exponents(j));
                simt::Accumulator<B_c> S_ij;
                K_full[k.stage].wait(k.parity);
                simt::begin_products(S_ij);
#pragma unroll
                for (int c = 0; c < D; c += 32)
                    simt::multiply(S_ij, simt::k_major(Q_i, owner.first_row, c),
                                   simt::k_major(K_ring.template rows_from<B_c>(k.stage * B_c), 0, c), c != 0);
                simt::commit_products();
                simt::wait_products<0>(S_ij);
                if (simt::elect_one()) K_empty[k.stage].arrive();  // of each warp
                if constexpr (edge) {
                    const int visible[2] = {seen_by(owner.row(0)) - j * B_c, seen_by(owner.row(1)) - j * B_c};
                    hide_keys(S_ij, owner, visible);
                }
                if constexpr (!(Shape::ablation & 4)) raise_maxima(S_ij, rows, exponent, float(value_exponent)); else rows.m[0] = rows.m[1] = S_ij[0];
                float sums[2] = {0.0f, 0.0f}, subtracted[2];
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    subtracted[half] = safe_maximum(rows.m[half]) - float(value_exponent) - kLargestWeightExponent;
                simt::OperandA<Code> P_ij[parts];
#pragma unroll
                for (int n = 0; n < parts; ++n) {
                    if constexpr (!(Shape::ablation & 1)) weigh_part<edge ? 0 : Shape::polynomial>(S_ij, sums, subtracted, exponent, n);
                    P_ij[n] = to_operand_of_8_bits<Code>(S_ij, n);
                    if (n == 0) {
                        rescale_rows<true>(O_i, rows);
                        V_t_full[k.stage].wait(k.parity);
                        simt::begin_products(O_i, P_ij[n]);
                    } else {
                        simt::begin_products(P_ij[n]);
                    }
                    simt::multiply(O_i, P_ij[n], simt::k_major(V_t_ring.template rows_from<D>(k.stage * D), 0, 32 * n), true);
                    simt::commit_products();
                }
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    rows.l[half] = fmaf(sums[half], power_of_two(-value_exponent), rows.l[half]);
                simt::wait_products<0>(O_i, P_ij);
                release(V_t_empty, k);
            };
            int j = tiles.visited - 1;
            // Of the tiles that the block visits, those that this warpgroup sees nothing of.
            const int seen = seen_by(owner.first_row + 63);
#pragma unroll 1
            for (; j * B_c >= seen; --j) {
                K_full[k.stage].wait(k.parity);  // or an arrival of this round would count for the one before
                if (simt::elect_one()) K_empty[k.stage].arrive();
                V_t_full[k.stage].wait(k.parity);
                release(V_t_empty, k);
            }
#pragma unroll 1
            for (; j >= tiles.full; --j) step(std::true_type(), j);
#pragma unroll 1
            for (; j >= 0; --j) step(std::false_type(), j);
            }
            if (Shape::takes_turns && consumer == 0) simt::sync_threads(1, 256);  // the last turn
        }
        const int visible[2] = {seen_by(owner.row(0)), seen_by(owner.row(1))};
        store_rows_of_8_bits(O_i, rows, owner, p.O.slice(b, h), p.LSE.slice(b, h), work.first_query, visible, p.vector_rows);
    }
}

/// One problem in 8 bits.
struct Fp8Arguments {
    AttentionArguments a;  ///< q, k, v of codes, D columns each
    simt::TensorArgument q_exponents, k_exponents, v_exponents;
};

template <class Code, class T, class Shape>
void launch_fp8_forward(const Fp8Arguments& f) {
    const AttentionArguments& a = f.a;
    const auto Q = simt::tile_map<Code, 4, Shape::B_r, Shape::D, kCodeSwizzle<Shape::D>>(a.q);
    const auto K = simt::tile_map<Code, 4, Shape::B_c, Shape::D, kCodeSwizzle<Shape::D>>(a.k);
    const auto V = simt::tile_map<Code, 4, Shape::B_c, Shape::D, kCodeSwizzle<Shape::D>>(a.v);
    Fp8Problem<T> p{hopper_problem(a),
                    simt::global_tensor<T, 4>(a.out),
                    simt::global_tensor<const int, 3>(f.q_exponents),
                    simt::global_tensor<const int, 3>(f.k_exponents),
                    simt::global_tensor<const int, 3>(f.v_exponents),
                    a.out.rows_aligned_to_16_bytes()};
    p.works = hopper_works(a, Shape::B_r);
    p.scale = fabsf(a.scale) * kLog2E;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(p.works);
    config.blockDim = dim3(Shape::threads);
    config.dynamicSmemBytes = Shape::shared_bytes;
    config.stream = static_cast<cudaStream_t>(a.stream);
    simt::launch("fp8_forward_kernel", config, fp8_forward_kernel<Code, T, Shape>, Q, K, V, p);
}

}  // namespace ladder::SIMT_MACHINE
