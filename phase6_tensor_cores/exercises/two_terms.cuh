#pragma once

#include <stdexcept>

#include "common/attention/copy_tile.cuh"
#include "common/attention/dispatch.cuh"
#include "common/attention/forward_tensors.cuh"
#include "common/attention/mma_edge.cuh"
#include "common/attention/mma_store.cuh"
#include "common/attention/mma_tile.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// The kernel of mma.cuh, without a mask and with swizzled rows, whose second product loses less: P_ij is the sum of two
/// operands of 16 bits, what its rounding gives and what its rounding leaves.
///
///   grid    x = ceil(Sq / 64) query tiles, y = Hq heads, z = B sequences
///   block   128 threads: warp w owns rows 16 w to 16 w + 15 of the tile
///
///   shared  Q_i, K_j, V_j  [64, D]   128 D each
// clang-format on
inline constexpr int kTwoTermsTile = 64, kTwoTermsThreads = 128;

/// Shared memory that a block needs.
template <class T, int D>
constexpr std::size_t two_terms_shared_bytes() {
    return 3 * simt::shared_bytes<T>(kTwoTermsTile, D);
}

template <class T, int D>
__global__ void __launch_bounds__(kTwoTermsThreads) two_terms_kernel(ForwardTensors<T> t) {
    constexpr int B_r = kTwoTermsTile, B_c = kTwoTermsTile, M = 1;
    const int b = blockIdx.z, h = blockIdx.y, first_query = blockIdx.x * B_r;
    const auto Q = t.Q.slice(b, h);
    const auto K = t.K.slice(b, t.kv_head(h));
    const auto V = t.V.slice(b, t.kv_head(h));
    const int key_length = int(K.extent(0));

    simt::SharedArena arena;
    const auto Q_tile = arena.tile<T, B_r, D>("Q_i");
    const auto K_tile = arena.tile<T, B_c, D>("K_j");
    const auto V_tile = arena.tile<T, B_c, D>("V_j");
    const auto Q_i = arranged<SwizzledRows>(Q_tile), K_j = arranged<SwizzledRows>(K_tile),
               V_j = arranged<SwizzledRows>(V_tile);

    const MmaOwner<M> owner;
    const SignedScale scale(t.scale);
    float m_i[M][2] = {{-INFINITY, -INFINITY}}, l_i[M][2] = {};  // l_i: of this lane's columns
    simt::FragmentC O_i[M][D / 8] = {};

    copy_tile<D>(Q_i, Q, first_query, t.vector_rows, B_r);

    for (int first_key = 0; first_key < key_length; first_key += B_c) {
        __syncthreads();  // all warps are done with the old K_j, V_j before they are overwritten
        copy_tile<D>(K_j, K, first_key, t.vector_rows, B_c);
        copy_tile<D>(V_j, V, first_key, t.vector_rows, B_c);
        __syncthreads();  // K_j, V_j (and the first time Q_i) are complete before the first read

        simt::FragmentC S_ij[M][B_c / 8] = {};
        multiply_keys<T, D>(
            S_ij, [&](int m, int k) { return query_fragment<T>(Q_i, owner, m, k); }, K_j);
        const int here = key_length - first_key, visible[M][2] = {{here, here}};
        hide_keys(S_ij, owner, visible);
        raise_maxima(S_ij, m_i, l_i, O_i, owner, scale, first_query);

#pragma unroll
        for (int k = 0; k < B_c / 16; ++k) {  // 16 keys
            const simt::FragmentA<T> high = weights<T>(S_ij, 0, k, m_i, l_i, owner, scale, first_query, first_key);
            // From here on the two fragments hold the weights that `high` has rounded.
            simt::FragmentC &left = S_ij[0][2 * k], &right = S_ij[0][2 * k + 1];
            // BEGIN SOLUTION two_terms: `low`, a second operand A: what the rounding left of each weight
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                left.element[e] -= float(T(left.element[e]));
                right.element[e] -= float(T(right.element[e]));
            }
            const simt::FragmentA<T> low = simt::to_a<T>(left, right);
            // END SOLUTION two_terms
#pragma unroll
            for (int c = 0; c < D / 8; c += 2) {
                simt::FragmentB<T> v[2];
                simt::ldmatrix_trans(v, V_j.block(16 * k, 8 * c));
#pragma unroll
                for (int side = 0; side < 2; ++side) {
                    simt::mma_m16n8k16(O_i[0][c + side], high, v[side]);
                    // BEGIN SOLUTION two_terms: and what `low` adds
                    simt::mma_m16n8k16(O_i[0][c + side], low, v[side]);
                    // END SOLUTION two_terms
                }
            }
        }
    }

    __syncwarp();  // the warp's lanes are done with its rows of Q_i before O_i takes their place
    store_rows<T, D>(t, b, h, first_query, Q_i, O_i, m_i, l_i, owner, [=](int) { return key_length; });
}

/// Launches the kernel compiled for the problem's dtype and head dimension. The scale is above 0: of another one,
/// mma.cuh puts the sign into Q_i.
void launch_two_terms(const AttentionArguments& a) {
    if (!(a.scale > 0.0f))
        throw std::invalid_argument("launch_two_terms: scale is 0 or below; a scale above 0 is accepted");
    with_element_type_of(MmaElements(), a.q.type, [&]<class T>(std::type_identity<T>) {
        with_mma_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(ceil_div(a.query_length(), kTwoTermsTile), a.query_heads(), a.batch());
            config.blockDim = dim3(kTwoTermsThreads);
            config.dynamicSmemBytes = two_terms_shared_bytes<T, D>();
            config.stream = static_cast<cudaStream_t>(a.stream);
            simt::launch("two_terms_kernel", config, two_terms_kernel<T, D>, forward_tensors<T>(a));
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
