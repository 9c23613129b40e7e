#pragma once

#include <cstddef>
#include <cstdint>

#include "common/simt/views/shared_layout.h"
#include "common/simt/views/tensor_argument.h"

namespace ladder {

/// What a block keeps in shared memory besides its B_r query rows and all of K.
enum class Scheme {
    q_blocked,   ///< scheme A: all of V, and whole rows of scores
    qv_blocked,  ///< scheme B: one tile of V, and whole rows of scores
};

/// What decides the shared memory of a block, besides the number of keys.
struct BlockedShape {
    Scheme scheme = Scheme::q_blocked;                ///< A or B
    simt::ElementType type = simt::ElementType::f16;  ///< of Q, K and V
    std::int64_t head_dim = 128;                      ///< D
    std::int64_t block_rows = 64;                     ///< B_r
};

/// Rows of a tile of V in scheme B, B_c.
inline constexpr int kValueTileRows = 32;

/// Shared memory of one block in bytes, matrix by matrix.
struct SharedNeed {
    std::size_t q = 0;  ///< Q_i [B_r, D]
    std::size_t k = 0;  ///< K   [N, D]
    std::size_t v = 0;  ///< V   [N, D], or V_j [B_c, D]
    std::size_t s = 0;  ///< S_i [B_r, N], which becomes P_i

    /// All of it.
    std::size_t total() const { return q + k + v + s; }
};

/// For N = `key_length` keys. The head dimension counts as it is, without padding.
SharedNeed shared_need(const BlockedShape& shape, std::int64_t key_length);

/// The largest number of keys for which a block needs at most `limit` bytes; 0 if not even one key fits.
std::int64_t largest_key_length(const BlockedShape& shape, std::size_t limit);

/// Largest B_r that a launch takes, whatever fits.
inline constexpr std::int64_t kMaxBlockRows = 1024;

/// The largest B_r (shape.block_rows is ignored) for which a block with `key_length` keys needs at most `limit` bytes;
/// 0 if not even one row fits.
std::int64_t largest_block_rows(BlockedShape shape, std::int64_t key_length, std::size_t limit);

}  // namespace ladder
