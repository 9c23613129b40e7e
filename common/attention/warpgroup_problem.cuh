#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "common/attention/arguments.h"
#include "common/attention/key_tiles.cuh"
#include "common/attention/warpgroup_tile.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

// What a kernel is given whose tiles come and go by the tensor memory accelerator.

/// The maps of Q, K, V and O for tiles of B_r queries and B_c keys. O leaves a warp's 16 rows at a time.
template <class T, int D, int B_r, int B_c>
struct ForwardMaps {
    simt::TensorMap<T, 4> Q, K, V, O;  ///< of the tensors
    /// Throws std::invalid_argument for a tensor that the accelerator cannot address.
    explicit ForwardMaps(const AttentionArguments& a)
        : Q(simt::tile_map<T, 4, B_r, D, kRowSwizzle<D>>(a.q)),
          K(simt::tile_map<T, 4, B_c, D, kRowSwizzle<D>>(a.k)),
          V(simt::tile_map<T, 4, B_c, D, kRowSwizzle<D>>(a.v)),
          O(simt::tile_map<T, 4, 16, D, kRowSwizzle<D>>(a.out)) {}
};

/// The rest of the problem.
template <class T>
struct ForwardProblem {
    simt::GlobalTensor<const T, 4> V;  ///< [B, Hkv, Sk, D], for what is not finite in it
    simt::GlobalTensor<float, 3> LSE;  ///< [B, Hq, Sq]
    int batch, query_heads, group;     ///< `group` neighbouring query heads read the same keys and values
    int query_length, key_length;      ///< Sq and Sk
    float scale;                       ///< factor on Q K^T
    Mask mask;                         ///< which keys a query sees
    int heads_at_once;                 ///< that walk side by side, from their longest tiles to their shortest
    int tiles;                         ///< of queries, of all heads

    /// Reads them off.
    ForwardProblem(const AttentionArguments& a, int B_r)
        : V(simt::global_tensor<const T, 4>(a.v)),
          LSE(simt::global_tensor<float, 3>(a.lse)),
          batch(int(a.batch())),
          query_heads(int(a.query_heads())),
          group(int(a.query_heads() / a.kv_heads())),
          query_length(int(a.query_length())),
          key_length(int(a.key_length())),
          scale(a.scale),
          mask(a.mask),
          heads_at_once(heads_that_share_l2(a)),
          tiles(int(a.batch() * a.query_heads() * ((a.query_length() + B_r - 1) / B_r))) {}

    /// Under a mask, as many heads as have their keys and values in L2 together. Without one all tiles are alike, and a
    /// head's are neighbours.
    static int heads_that_share_l2(const AttentionArguments& a) {
        constexpr std::int64_t l2_bytes = 32 * 1024 * 1024;  // of 50 MiB
        if (a.mask == Mask::none) return 1;
        const std::int64_t of_a_head = 2 * a.key_length() * a.head_dim() * 2 * a.kv_heads() / a.query_heads();
        return int(
            std::clamp<std::int64_t>(l2_bytes / std::max<std::int64_t>(of_a_head, 1), 1, a.batch() * a.query_heads()));
    }
};

/// A tile of queries: which head it is of, and where it begins.
struct QueryTile {
    int b, h, kv_head, first_query;  ///< its sequence, its head, the head of its keys, its first row

    /// Tile `number` of all, in an order in which the longest of `heads_at_once` heads come first.
    template <class T>
    __device__ static QueryTile numbered(const ForwardProblem<T>& p, int number, int B_r) {
        const int tiles_of_a_head = (p.query_length + B_r - 1) / B_r;
        const int first_head = number / (p.heads_at_once * tiles_of_a_head) * p.heads_at_once;
        const int in_section = number - first_head * tiles_of_a_head;
        const int heads = min(p.heads_at_once, p.batch * p.query_heads - first_head);
        const int head = first_head + in_section % heads;
        // The last queries see the most keys: begun first.
        return of_head(p, head / p.query_heads, head % p.query_heads, (tiles_of_a_head - 1 - in_section / heads) * B_r);
    }
    /// The tile of blockIdx, of a grid of tiles, heads and sequences.
    template <class T>
    __device__ static QueryTile of_block(const ForwardProblem<T>& p, int B_r) {
        return of_head(p, int(blockIdx.z), int(blockIdx.y), int(blockIdx.x) * B_r);
    }

    /// Keys that its row sees.
    template <class T>
    __device__ int visible(const ForwardProblem<T>& p, int row) const {
        return visible_keys(p.mask, first_query + row, p.query_length, p.key_length);
    }
    /// Its tiles of B_c keys.
    template <class T>
    __device__ KeyTiles key_tiles_of(const ForwardProblem<T>& p, int B_r, int B_c) const {
        return key_tiles(p.mask, first_query, B_r, B_c, p.query_length, p.key_length);
    }

  private:
    template <class T>
    __device__ static QueryTile of_head(const ForwardProblem<T>& p, int b, int h, int first_query) {
        return {.b = b, .h = h, .kv_head = h / p.group, .first_query = first_query};
    }
};

/// What a kernel moves whose blocks own B_r queries and visit tiles of B_c keys, of rows of whole 16 bytes.
inline GlobalBytes forward_bytes_of_pieces(AttentionArguments a, int B_r, int B_c) {
    a.q.extents[3] = (a.head_dim() + 7) / 8 * 8;
    return forward_bytes_in_16_bits(a, B_r, B_c);
}

}  // namespace ladder::SIMT_MACHINE
