#pragma once

#include "common/attention/arguments.h"
#include "common/attention/dispatch.cuh"
#include "common/attention/forward_tensors.cuh"
#include "phase1_naive/blocked_arguments.h"
#include "phase1_naive/blocked_stages.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// Scheme A: blocks of queries, and everything that they need in shared memory.
///
/// Changed since standard.cuh: the three kernels become three stages of one, and S and P never leave the chip. The
/// softmax is still the ordinary one, which wants a whole row of scores before it can give out a single probability.
/// So a block needs room for B_r whole rows, and for every key and every value that they meet. That is the wall: the
/// need grows with N, and shared memory does not.
///
///   grid    x = ceil(Sq / B_r) query tiles, y = Hq heads, z = B sequences
///   block   one thread for each 4 x 4 patch of O_i, 128 to 512; warps take rows in turn for the softmax
///
///   shared  Q_i  [B_r, D]   B_r D sizeof(T)
///           K    [N, D]     N D sizeof(T)        N = Sk
///           V    [N, D]     N D sizeof(T)
///           S_i  [B_r, N]   B_r N sizeof(T)      becomes P_i in place
///           each rounded up to 16 bytes; all sizes are known only at launch. With D = 128, B_r = 64 and f16:
///           N = 128: 16384 + 32768 + 32768 + 16384 =  98304, within the 101376 bytes of an RTX 5060 Ti
///           N = 256: 16384 + 65536 + 65536 + 32768 = 180224, and no launch
///
///   global  reads Q once, and K and V once per query tile; writes O and LSE once; no S, no P
// clang-format on

template <class T>
__global__ void __launch_bounds__(kMaxBlockedThreads) q_blocked_kernel(ForwardTensors<T> t, int block_rows) {
    const int b = blockIdx.z, h = blockIdx.y, first_query = int(blockIdx.x) * block_rows;
    const auto Q = t.Q.slice(b, h);
    const auto K = t.K.slice(b, t.kv_head(h));
    const auto V = t.V.slice(b, t.kv_head(h));
    const int key_length = int(K.extent(0)), head_dim = int(Q.extent(1));
    const int left = int(Q.extent(0)) - first_query, rows = left < block_rows ? left : block_rows;

    simt::SharedArena arena;
    const auto Q_i = arena.matrix<T>("Q_i", block_rows, head_dim);
    const auto K_all = arena.matrix<T>("K", key_length, head_dim);
    const auto V_all = arena.matrix<T>("V", key_length, head_dim);
    const auto S_i = arena.matrix<T>("S_i", block_rows, key_length);

    // BEGIN SOLUTION stages: Q_i, K and V into shared memory; S_i; P_i in its place
    copy_rows(Q_i, Q, first_query, rows, t.vector_rows);
    copy_turned(K_all, K, t.vector_rows);
    copy_rows(V_all, V, 0, key_length, t.vector_rows);
    __syncthreads();  // Q_i, K and V are complete before anyone reads them

    multiply_scores(S_i, Q_i, K_all, rows, t.scale);
    __syncthreads();  // whole rows of S_i are there: each was computed by many threads, and its maximum needs them all

    softmax_rows(S_i, t.LSE.slice(b, h), first_query, rows);
    const auto& P_i = S_i;
    __syncthreads();  // rows of P_i are complete before other threads, of any warp, read them
    //= const auto& P_i = S_i;
    // END SOLUTION stages

    const Patches patches{rows, head_dim};
    for (int number = threadIdx.x; number < patches.count(); number += blockDim.x) {
        const Patch patch(patches, number);
        OutputPatch output;
        output.add_product(patch, P_i, V_all, 0, key_length, rows);
        output.store(patch, t.O.slice(b, h), first_query, rows);
    }
}

/// Q once, K and V once for each query tile of each query head; O and LSE once.
GlobalBytes q_blocked_bytes(const BlockedArguments& a) {
    GlobalBytes bytes;
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        const std::uint64_t heads = a.batch() * a.query_heads();
        const std::uint64_t row = a.head_dim() * sizeof(T);
        const std::uint64_t tiles = ceil_div(a.query_length(), a.block_rows);
        bytes.read = heads * row * (a.query_length() + tiles * 2 * a.key_length());
        bytes.written = heads * a.query_length() * (row + sizeof(float));
    });
    return bytes;
}

/// Launches the kernel, and asks nobody whether its shared memory fits: the device says so, with a simt::LaunchError.
void launch_q_blocked(const BlockedArguments& a) {
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(ceil_div(a.query_length(), a.block_rows), a.query_heads(), a.batch());
        config.blockDim = dim3(blocked_threads(a.block_rows, int(a.head_dim())));
        config.dynamicSmemBytes = shared_need(a.shape(Scheme::q_blocked), a.key_length()).total();
        config.stream = static_cast<cudaStream_t>(a.stream);
        simt::launch("q_blocked_kernel", config, q_blocked_kernel<T>, forward_tensors<T>(a), a.block_rows);
    });
}

}  // namespace ladder::SIMT_MACHINE
