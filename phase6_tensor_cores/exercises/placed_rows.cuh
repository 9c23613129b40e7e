#pragma once

#include <stdexcept>

#include "common/attention/copy_tile.cuh"
#include "common/attention/dispatch.cuh"
#include "common/attention/forward_tensors.cuh"
#include "common/attention/mma_edge.cuh"
#include "common/attention/mma_store.cuh"
#include "common/attention/mma_tile.cuh"
#include "phase6_tensor_cores/exercises/places.cuh"

namespace ladder::SIMT_MACHINE {

// The kernel of mma.cuh, without a mask, with tiles whose pieces lie where place_of() says.

/// A tile of R rows of D elements, seen through place_of(), as arranged_tile.cuh shows one.
template <class T, int R, int D>
class PlacedTile {
  public:
    using Element = T;
    __device__ explicit PlacedTile(const simt::SharedTile<T, R, D>& tile) : tile_(tile) {}

    /// Elements from (row, column) on, all of one piece.
    template <class V>
    __device__ decltype(auto) vec(int row, int column) const {
        const int place = place_of<pieces>(row, column / 8);
        return tile_.template vec<V>(place / pieces, place % pieces * 8 + column % 8);
    }
    /// What the calling lane passes to ldmatrix, for operands A and, transposed, for V_j.
    __device__ decltype(auto) block(int row, int column) const {
        const int lane = threadIdx.x % 32;
        return vec<simt::WideVector<T>>(row + lane % 16, column + lane / 16 * 8);
    }
    /// The same for K_j.
    __device__ decltype(auto) block_of_columns(int row, int column) const {
        const int lane = threadIdx.x % 32;
        return vec<simt::WideVector<T>>(row + lane % 8 + lane / 16 * 8, column + lane / 8 % 2 * 8);
    }
    /// One element.
    __device__ decltype(auto) operator()(int row, int column) const {
        const int place = place_of<pieces>(row, column / 8);
        return tile_(place / pieces, place % pieces * 8 + column % 8);
    }
    /// As copy_tile() asks.
    static constexpr int rows() { return R; }

  private:
    static constexpr int pieces = D / 8;
    const simt::SharedTile<T, R, D>& tile_;
};

/// 64 queries by 64 keys a step, 16 queries a warp.
inline constexpr int kPlacedTile = 64, kPlacedThreads = 128;

template <class T, int D>
__global__ void __launch_bounds__(kPlacedThreads) placed_rows_kernel(ForwardTensors<T> t) {
    constexpr int B_r = kPlacedTile, B_c = kPlacedTile, M = 1;
    const int b = blockIdx.z, h = blockIdx.y, first_query = blockIdx.x * B_r;
    const auto Q = t.Q.slice(b, h);
    const auto K = t.K.slice(b, t.kv_head(h));
    const auto V = t.V.slice(b, t.kv_head(h));
    const int key_length = int(K.extent(0));

    simt::SharedArena arena;
    const auto Q_tile = arena.tile<T, B_r, D>("Q_i");
    const auto K_tile = arena.tile<T, B_c, D>("K_j");
    const auto V_tile = arena.tile<T, B_c, D>("V_j");
    const PlacedTile Q_i(Q_tile), K_j(K_tile), V_j(V_tile);

    const MmaOwner<M> owner;
    const SignedScale scale(t.scale);
    float m_i[M][2] = {{-INFINITY, -INFINITY}}, l_i[M][2] = {};
    simt::FragmentC O_i[M][D / 8] = {};

    copy_tile<D>(Q_i, Q, first_query, t.vector_rows);

    for (int first_key = 0; first_key < key_length; first_key += B_c) {
        __syncthreads();
        copy_tile<D>(K_j, K, first_key, t.vector_rows);
        copy_tile<D>(V_j, V, first_key, t.vector_rows);
        __syncthreads();

        simt::FragmentC S_ij[M][B_c / 8] = {};
        multiply_keys<T, D>(
            S_ij, [&](int m, int k) { return query_fragment<T>(Q_i, owner, m, k); }, K_j);
        const int here = key_length - first_key, visible[M][2] = {{here, here}};
        hide_keys(S_ij, owner, visible);
        raise_maxima(S_ij, m_i, l_i, O_i, owner, scale, first_query);
        multiply_values<T, B_c>(
            O_i, [&](int m, int k) { return weights<T>(S_ij, m, k, m_i, l_i, owner, scale, first_query, first_key); },
            V_j);
    }

    __syncwarp();
    store_rows<T, D>(t, b, h, first_query, Q_i, O_i, m_i, l_i, owner, [=](int) { return key_length; });
}

/// Launches the kernel compiled for the problem's dtype and head dimension. The scale is above 0: of another one,
/// mma.cuh puts the sign into Q_i.
void launch_placed_rows(const AttentionArguments& a) {
    if (!(a.scale > 0.0f))
        throw std::invalid_argument("launch_placed_rows: scale is 0 or below; a scale above 0 is accepted");
    with_element_type_of(MmaElements(), a.q.type, [&]<class T>(std::type_identity<T>) {
        with_mma_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(ceil_div(a.query_length(), kPlacedTile), a.query_heads(), a.batch());
            config.blockDim = dim3(kPlacedThreads);
            config.dynamicSmemBytes = 3 * simt::shared_bytes<T>(kPlacedTile, D);
            config.stream = static_cast<cudaStream_t>(a.stream);
            simt::launch("placed_rows_kernel", config, placed_rows_kernel<T, D>, forward_tensors<T>(a));
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
