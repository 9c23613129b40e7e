#pragma once

#include "common/attention/arguments.h"
#include "common/attention/dispatch.cuh"
#include "common/attention/forward_tensors.cuh"
#include "phase1_naive/blocked_arguments.h"
#include "phase1_naive/blocked_stages.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// Scheme B: blocks of queries, and blocks of values.
///
/// Changed since scheme A: O_i = P_i V is a sum over keys, and a sum can be taken in parts. So V comes past in tiles of
/// B_c rows, and O_i grows in registers. This needs the columns j B_c … (j + 1) B_c - 1 of P_i at step j: a slice of an
/// on-chip matrix at a place known only at run time. In CUDA C++ that is an index. A tile compiler, whose on-chip
/// tensors are values in registers and cannot be indexed, has no such thing, and stops at scheme A.
///
/// It moves the wall, and does not remove it: K and the rows of scores still grow with N.
///
///   grid    x = ceil(Sq / B_r) query tiles, y = Hq heads, z = B sequences
///   block   one thread for each 4 x 4 patch of O_i, 128 to 512; a thread keeps its patch while V comes past
///
///   shared  Q_i  [B_r, D]   B_r D sizeof(T)
///           K    [N, D]     N D sizeof(T)        N = Sk
///           V_j  [B_c, D]   B_c D sizeof(T)      B_c = 32, written each step
///           S_i  [B_r, N]   B_r N sizeof(T)      becomes P_i in place
///           With D = 128, B_r = 64 and f16, N = 200 fits the 101376 bytes of an RTX 5060 Ti (scheme A: 132)
///
///   global  reads Q once, and K and V once per query tile; writes O and LSE once. Where O_i has more than 512 patches
///           (B_r > 64 at D = 128) it is made in several passes, and V comes past once in each.
// clang-format on

template <class T>
__global__ void __launch_bounds__(kMaxBlockedThreads) qv_blocked_kernel(ForwardTensors<T> t, int block_rows) {
    const int b = blockIdx.z, h = blockIdx.y, first_query = int(blockIdx.x) * block_rows;
    const auto Q = t.Q.slice(b, h);
    const auto K = t.K.slice(b, t.kv_head(h));
    const auto V = t.V.slice(b, t.kv_head(h));
    const int key_length = int(K.extent(0)), head_dim = int(Q.extent(1));
    const int left = int(Q.extent(0)) - first_query, rows = left < block_rows ? left : block_rows;

    simt::SharedArena arena;
    const auto Q_i = arena.matrix<T>("Q_i", block_rows, head_dim);
    const auto K_all = arena.matrix<T>("K", key_length, head_dim);
    const auto V_j = arena.matrix<T>("V_j", kValueTileRows, head_dim);
    const auto S_i = arena.matrix<T>("S_i", block_rows, key_length);

    copy_rows(Q_i, Q, first_query, rows, t.vector_rows);
    copy_turned(K_all, K, t.vector_rows);
    __syncthreads();  // Q_i and K are complete before anyone reads them

    multiply_scores(S_i, Q_i, K_all, rows, t.scale);
    __syncthreads();  // whole rows of S_i are there: each was computed by many threads, and its maximum needs them all

    softmax_rows(S_i, t.LSE.slice(b, h), first_query, rows);
    const auto& P_i = S_i;

    const Patches patches{rows, head_dim};
    for (int first_patch = 0; first_patch < patches.count(); first_patch += int(blockDim.x)) {
        const int number = first_patch + int(threadIdx.x);
        const bool has_patch = number < patches.count();
        const Patch patch(patches, number);
        OutputPatch output;
        for (int first_key = 0; first_key < key_length; first_key += kValueTileRows) {
            const int keys_left = key_length - first_key,
                      keys = keys_left < kValueTileRows ? keys_left : kValueTileRows;
            __syncthreads();  // everyone is done with the old V_j before anyone overwrites it
            copy_rows(V_j, V, first_key, keys, t.vector_rows);
            __syncthreads();  // V_j (and, the first time, P_i) is complete before anyone reads it
            if (has_patch) output.add_product(patch, P_i, V_j, first_key, keys, rows);
        }
        if (has_patch) output.store(patch, t.O.slice(b, h), first_query, rows);
    }
}

/// Q once, K once for each query tile of each query head, V once for each pass over such a tile; O and LSE once.
GlobalBytes qv_blocked_bytes(const BlockedArguments& a) {
    GlobalBytes bytes;
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        const std::uint64_t heads = a.batch() * a.query_heads();
        const std::uint64_t row = a.head_dim() * sizeof(T);
        const int head_dim = int(a.head_dim()), threads = blocked_threads(a.block_rows, head_dim);
        const auto passes = [&](int rows) { return ceil_div(Patches{rows, head_dim}.count(), threads); };
        const std::uint64_t full_tiles = a.query_length() / a.block_rows;
        const int rest = int(a.query_length() % a.block_rows);
        const std::uint64_t k_readings = full_tiles + (rest > 0);
        const std::uint64_t v_readings = full_tiles * passes(a.block_rows) + passes(rest);
        bytes.read = heads * row * (a.query_length() + (k_readings + v_readings) * a.key_length());
        bytes.written = heads * a.query_length() * (row + sizeof(float));
    });
    return bytes;
}

/// Launches the kernel, and asks nobody whether its shared memory fits: the device says so, with a simt::LaunchError.
void launch_qv_blocked(const BlockedArguments& a) {
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(ceil_div(a.query_length(), a.block_rows), a.query_heads(), a.batch());
        config.blockDim = dim3(blocked_threads(a.block_rows, int(a.head_dim())));
        config.dynamicSmemBytes = shared_need(a.shape(Scheme::qv_blocked), a.key_length()).total();
        config.stream = static_cast<cudaStream_t>(a.stream);
        simt::launch("qv_blocked_kernel", config, qv_blocked_kernel<T>, forward_tensors<T>(a), a.block_rows);
    });
}

}  // namespace ladder::SIMT_MACHINE
