#pragma once

#include "phase2_fa1/fa1.cuh"

namespace ladder::SIMT_MACHINE {

/// FlashAttention with ALiBi (Press, Smith, Lewis 2021).
///
/// The kernel is that of fa1.cuh, where its plan is written down and where its helpers come from. Added: each head has
/// a slope, and a key that lies some positions before the query loses that many slopes of its score. The last query
/// stands at the last key:
///
///   S_ij(query, key) = scale Q_i K_j^T + slope (key - (query + Sk - Sq))
template <class T, int D>
__global__ void __launch_bounds__(32 * kFa1MaxWarps, 1)
    alibi_forward_kernel(ForwardTensors<T> t, Fa1Running running, simt::GlobalTensor<const float, 1> slopes) {
    const int b = blockIdx.y, h = blockIdx.x, warp = int(threadIdx.x) / 32, warps = int(blockDim.x) / 32;
    const int B_r = running.B_r, B_c = running.B_c;
    const auto Q = t.Q.slice(b, h);
    const auto K = t.K.slice(b, t.kv_head(h));
    const auto V = t.V.slice(b, t.kv_head(h));
    const auto O = t.O.slice(b, h);
    const auto running_O = running.O.slice(b, h);
    const auto l = running.l.slice(b, h), m = running.m.slice(b, h), LSE = t.LSE.slice(b, h);
    const int query_length = int(Q.extent(0)), key_length = int(K.extent(0));
    const float slope = slopes(h);

    constexpr int pitch = D + simt::kVectorWidth<T>;
    simt::SharedArena arena;
    const auto K_j = arena.matrix<T>("K_j", B_c, pitch);
    const auto V_j = arena.matrix<T>("V_j", B_c, pitch);
    const auto Q_i = arena.matrix<T>("Q_i", B_r, pitch);
    const auto P_ij = arena.matrix<float>("P_ij", B_r, running.score_pitch);

    for (int first_key = 0; first_key < key_length; first_key += B_c) {
        const bool first_step = first_key == 0, last_step = first_key + B_c >= key_length;
        const int keys = last_step ? key_length - first_key : B_c;
        const int columns = (keys + 7) / 8 * 8;  // the eight lanes of a row go through the columns together

        copy_tile<D>(K_j, K, first_key, t.vector_rows, columns);
        copy_tile<D>(V_j, V, first_key, t.vector_rows, columns);

        for (int first_query = 0; first_query < query_length; first_query += B_r) {
            const int queries = first_query + B_r >= query_length ? query_length - first_query : B_r;
            const int strips = (queries + kFa1Granule - 1) / kFa1Granule;

            copy_tile<D>(Q_i, Q, first_query, t.vector_rows, strips * kFa1Granule);
            __syncthreads();  // Q_i (and, at the first query tile, K_j and V_j) are complete before anyone reads them

            for (int strip = warp; strip < strips; strip += warps) {
                const Fa1Strip own(strip);

                float O_i[kFa1Rows][D / 8] = {}, l_i[kFa1Rows], m_i[kFa1Rows];
                load_running<T, D>(O_i, l_i, m_i, own, first_query, first_step, query_length, running_O, l, m,
                                   running.vector_rows);

                float m_tile[kFa1Rows], l_tile[kFa1Rows];
                compute_scores<T, D>(m_tile, P_ij, own, Q_i, K_j, keys, columns, t.scale);
                // BEGIN SOLUTION alibi: the scores get their bias, and the maximum is that of the new scores
#pragma unroll
                for (int i = 0; i < kFa1Rows; ++i) {
                    const int last_seen = first_query + own.row(i) + key_length - query_length;  // distance 0
                    m_tile[i] = -INFINITY;
                    for (int column = own.lane; column < columns; column += 8) {
                        const float score = P_ij(own.row(i), column) + slope * float(first_key + column - last_seen);
                        P_ij(own.row(i), column) = score;
                        m_tile[i] = fmaxf(m_tile[i], score);
                    }
                }
                // END SOLUTION alibi
                weigh_tile(m_tile, l_tile, P_ij, own, columns, first_query, first_key);
                __syncwarp();  // the rows of P_ij are complete before their warp reads them; no other warp touches them

                float PV[kFa1Rows][D / 8] = {};
                accumulate<1>(PV, own, P_ij, V_j, columns);

#pragma unroll
                for (int i = 0; i < kFa1Rows; ++i) {
                    const float m_new = fmaxf(m_i[i], m_tile[i]);
                    const float old_sum = merge_weight(m_i[i], m_new) * l_i[i];  // what is known, under the new maximum
                    const float tile_weight = merge_weight(m_tile[i], m_new);
                    const float l_new = old_sum + tile_weight * l_tile[i];

                    // A row that has met nothing but -inf has nothing to normalise yet: O_i stays 0. Only at the end
                    // is 0 / 0 its answer, as softmax has it.
                    const float divisor = l_new == 0.0f && !last_step ? 1.0f : l_new;
                    const float old_share = old_sum / divisor, tile_share = tile_weight / divisor;
#pragma unroll
                    for (int c = 0; c < D / 8; ++c) O_i[i][c] = old_share * O_i[i][c] + tile_share * PV[i][c];

                    const int query = first_query + own.row(i);
                    if (query >= query_length) continue;
                    if (last_step) {
                        store_output_row<T, D>(O, query, O_i[i], own.lane, running.final_vector_rows);
                        if (own.lane == 0) LSE(query) = m_new + logf(l_new);
                    } else {
                        store_output_row<T, D>(running_O, query, O_i[i], own.lane, running.vector_rows);
                        if (own.lane == 0) {
                            l(query) = l_new;
                            m(query) = m_new;
                        }
                    }
                }
            }
            __syncthreads();  // all warps are done with Q_i, and with their rows of P_ij, before the next step
                              // overwrites them; after the last query tile the same holds for K_j and V_j
        }
    }
}

/// Launches the kernel compiled for the problem's dtype and head dimension.
void launch_alibi_forward(const Fa1Arguments& a, const simt::TensorArgument& slopes) {
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            const int strips = a.tiles.B_r / kFa1Granule;
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(a.query_heads(), a.batch());
            config.blockDim = dim3(32 * std::clamp(strips, kFa1MinWarps, kFa1MaxWarps));
            config.dynamicSmemBytes = a.tiles.shared_bytes;
            config.stream = static_cast<cudaStream_t>(a.stream);
            simt::launch("alibi_forward_kernel", config, alibi_forward_kernel<T, D>, forward_tensors<T>(a),
                         fa1_running(a), simt::global_tensor<const float, 1>(slopes));
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
