#pragma once

#include "common/attention/dispatch.cuh"
#include "common/attention/forward_tensors.cuh"
#include "phase1_naive/blocked_stages.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// Scheme C: K comes past in tiles, too.
///
/// Added to scheme B, qv_blocked.cuh, where the plan is written down: S_i = Q_i K^T can be computed a few columns at a
/// time, so K does not have to be there as a whole. K_j and V_j are never wanted at once and share one place.
///
///   grid    x = ceil(Sq / B_r) query tiles, y = Hq heads, z = B sequences      B_r = 16, B_c = 32
///   block   128 threads
///
///   shared  Q_i  [B_r, D]   B_r D sizeof(T)
///           K_j  [B_c, D]   B_c D sizeof(T)      then V_j in the same place; written each step
///           S_i  [B_r, N]   B_r N sizeof(T)      N = Sk; becomes P_i in place
///
///   global  reads Q once, and K and V once per query tile; writes O and LSE once
// clang-format on

inline constexpr int kThreads = 128;   ///< of a block
inline constexpr int kQueryRows = 16;  ///< B_r
inline constexpr int kTileRows = 32;   ///< B_c, of K_j and of V_j

/// S_i(:, first_key … first_key + keys - 1) = scale Q_i K_j^T, for the first `rows` rows and the first `keys` keys of
/// K_j.
template <class T>
__device__ void multiply_tile(const simt::SharedMatrix<T>& S_i, const simt::SharedMatrix<T>& Q_i,
                              const simt::SharedMatrix<T>& K_j, int rows, int first_key, int keys, float scale) {
    const int head_dim = K_j.columns();
    for (int n = threadIdx.x; n < rows * keys; n += blockDim.x) {
        const int row = n / keys, key = n % keys;
        float sum = 0.0f;
        for (int d = 0; d < head_dim; ++d) sum += float(Q_i(row, d)) * float(K_j(key, d));
        S_i(row, first_key + key) = T(scale * sum);
    }
}

template <class T>
__global__ void __launch_bounds__(kThreads) keys_in_tiles_kernel(ForwardTensors<T> t) {
    const int b = blockIdx.z, h = blockIdx.y, first_query = int(blockIdx.x) * kQueryRows;
    const auto Q = t.Q.slice(b, h);
    const auto K = t.K.slice(b, t.kv_head(h));
    const auto V = t.V.slice(b, t.kv_head(h));
    const int key_length = int(K.extent(0)), head_dim = int(Q.extent(1));
    const int left = int(Q.extent(0)) - first_query, rows = left < kQueryRows ? left : kQueryRows;

    simt::SharedArena arena;
    const auto Q_i = arena.matrix<T>("Q_i", kQueryRows, head_dim);
    // BEGIN SOLUTION tiles: one place for a tile of K or of V
    const auto KV_j = arena.matrix<T>("KV_j", kTileRows, head_dim);
    //= const auto K_all = arena.matrix<T>("K", key_length, head_dim);
    //= const auto V_j = arena.matrix<T>("V_j", kTileRows, head_dim);
    // END SOLUTION tiles
    const auto S_i = arena.matrix<T>("S_i", kQueryRows, key_length);

    copy_rows(Q_i, Q, first_query, rows, t.vector_rows);
    // BEGIN SOLUTION tiles: S_i, tile by tile of K
    for (int first_key = 0; first_key < key_length; first_key += kTileRows) {
        const int keys_left = key_length - first_key, keys = keys_left < kTileRows ? keys_left : kTileRows;
        __syncthreads();  // everyone is done with the old K_j before anyone overwrites it
        copy_rows(KV_j, K, first_key, keys, t.vector_rows);
        __syncthreads();  // K_j (and, the first time, Q_i) is complete before anyone reads it
        multiply_tile(S_i, Q_i, KV_j, rows, first_key, keys, t.scale);
    }
    //= copy_rows(K_all, K, 0, key_length, t.vector_rows);
    //= __syncthreads();  // Q_i and K are complete before anyone reads them
    //= multiply_tile(S_i, Q_i, K_all, rows, 0, key_length, t.scale);
    // END SOLUTION tiles
    __syncthreads();  // whole rows of S_i are there: each was computed by many threads, and its maximum needs them all

    softmax_rows(S_i, t.LSE.slice(b, h), first_query, rows);
    const auto& P_i = S_i;

    const Patches patches{rows, head_dim};
    for (int first_patch = 0; first_patch < patches.count(); first_patch += int(blockDim.x)) {
        const int number = first_patch + int(threadIdx.x);
        const bool has_patch = number < patches.count();
        const Patch patch(patches, number);
        OutputPatch output;
        for (int first_key = 0; first_key < key_length; first_key += kTileRows) {
            const int keys_left = key_length - first_key, keys = keys_left < kTileRows ? keys_left : kTileRows;
            // BEGIN SOLUTION tiles: the next tile of V, and its part of O_i
            __syncthreads();  // everyone is done with the old K_j or V_j before anyone overwrites it
            copy_rows(KV_j, V, first_key, keys, t.vector_rows);
            __syncthreads();  // V_j (and, the first time, P_i) is complete before anyone reads it
            if (has_patch) output.add_product(patch, P_i, KV_j, first_key, keys, rows);
            //= __syncthreads();  // everyone is done with the old V_j before anyone overwrites it
            //= copy_rows(V_j, V, first_key, keys, t.vector_rows);
            //= __syncthreads();  // V_j (and, the first time, P_i) is complete before anyone reads it
            //= if (has_patch) output.add_product(patch, P_i, V_j, first_key, keys, rows);
            // END SOLUTION tiles
        }
        if (has_patch) output.store(patch, t.O.slice(b, h), first_query, rows);
    }
}

/// Of a block, for N keys.
template <class T>
std::size_t shared_bytes_of(std::int64_t N, std::int64_t head_dim) {
    std::size_t bytes = simt::shared_bytes<T>(kQueryRows, head_dim) + simt::shared_bytes<T>(kQueryRows, N);
    // BEGIN SOLUTION tiles: the bytes of K and V
    bytes += simt::shared_bytes<T>(kTileRows, head_dim);
    //= bytes += simt::shared_bytes<T>(N, head_dim) + simt::shared_bytes<T>(kTileRows, head_dim);
    // END SOLUTION tiles
    return bytes;
}

/// Launches the kernel, and asks nobody whether its shared memory fits: the device says so, with a simt::LaunchError.
void launch_keys_in_tiles(const AttentionArguments& a) {
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(ceil_div(a.query_length(), kQueryRows), a.query_heads(), a.batch());
        config.blockDim = dim3(kThreads);
        config.dynamicSmemBytes = shared_bytes_of<T>(a.key_length(), a.head_dim());
        config.stream = static_cast<cudaStream_t>(a.stream);
        simt::launch("keys_in_tiles_kernel", config, keys_in_tiles_kernel<T>, forward_tensors<T>(a));
    });
}

}  // namespace ladder::SIMT_MACHINE
