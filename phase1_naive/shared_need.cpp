#include "phase1_naive/shared_need.h"

#include <algorithm>

namespace ladder {
namespace {

std::size_t matrix_bytes(simt::ElementType type, std::int64_t rows, std::int64_t columns) {
    return type == simt::ElementType::f32 ? simt::shared_bytes<float>(rows, columns)
                                          : simt::shared_bytes<std::uint16_t>(rows, columns);
}

}  // namespace

SharedNeed shared_need(const BlockedShape& shape, std::int64_t key_length) {
    // BEGIN SOLUTION need: the bytes of each matrix
    const std::int64_t value_rows = shape.scheme == Scheme::q_blocked ? key_length : kValueTileRows;
    return {.q = matrix_bytes(shape.type, shape.block_rows, shape.head_dim),
            .k = matrix_bytes(shape.type, key_length, shape.head_dim),
            .v = matrix_bytes(shape.type, value_rows, shape.head_dim),
            .s = matrix_bytes(shape.type, shape.block_rows, key_length)};
    //= return {};
    // END SOLUTION need
}

// Bytes grow linearly with N and with B_r, but for the rounding of each matrix to 16 bytes. Rounding only adds, so the
// quotient without it is an upper bound, and the answer lies a step or two below.

std::int64_t largest_key_length(const BlockedShape& shape, std::size_t limit) {
    const std::size_t fixed = shared_need(shape, 0).total();
    if (fixed > limit) return 0;
    const std::int64_t element = std::int64_t(element_bytes(shape.type));
    const std::int64_t whole_matrices = shape.scheme == Scheme::q_blocked ? 2 : 1;
    const std::int64_t per_key = element * (whole_matrices * shape.head_dim + shape.block_rows);
    std::int64_t length = std::int64_t(limit - fixed) / per_key;
    while (length > 0 && shared_need(shape, length).total() > limit) --length;
    return length;
}

std::int64_t largest_block_rows(BlockedShape shape, std::int64_t key_length, std::size_t limit) {
    shape.block_rows = 0;
    const std::size_t fixed = shared_need(shape, key_length).total();
    if (fixed > limit) return 0;
    const std::int64_t element = std::int64_t(element_bytes(shape.type));
    const std::int64_t per_row = element * (shape.head_dim + key_length);
    shape.block_rows = std::min(std::int64_t(limit - fixed) / per_row, kMaxBlockRows);
    while (shape.block_rows > 0 && shared_need(shape, key_length).total() > limit) --shape.block_rows;
    return shape.block_rows;
}

}  // namespace ladder
