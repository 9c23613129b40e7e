#pragma once

#include "phase2_fa1/fa1.cuh"

namespace ladder::SIMT_MACHINE {

/// FlashAttention in fewer steps. The kernel is that of fa1.cuh, where its plan is written down. Added is another
/// choice of its two tile sizes, for blocks of 48 KiB: B_c decides how many steps there are, and at each of them O, l
/// and m of every query are read and written, and Q is read.
///
///   shared  K_j [B_c, d + pad], V_j [B_c, d + pad], Q_i [B_r, d + pad] of T; P_ij [B_r, B_c + 4] of float; pad: 16
///   bytes
///
/// `d` is the head dimension that the kernel is compiled for, 32 or 64. Both sizes are multiples of eight.
inline Fa1Tiles tiles_for(int d, int element_bytes) {
    // BEGIN SOLUTION tiles: 64 keys a step, within 49152 bytes for d = 64 in float32
    constexpr int B_r = 24, B_c = 64;  // 47872 bytes
    //= constexpr int B_r = 32, B_c = 32;
    // END SOLUTION tiles
    return {.B_r = B_r, .B_c = B_c, .shared_bytes = fa1_shared_bytes(B_r, B_c, d, element_bytes)};
}

/// Launches the kernel with these tiles.
void launch_fewer_steps(Fa1Arguments a) {
    a.tiles = tiles_for(a.head_dim() <= 32 ? 32 : 64, int(simt::element_bytes(a.q.type)));
    launch_fa1_forward(a);
}

}  // namespace ladder::SIMT_MACHINE
