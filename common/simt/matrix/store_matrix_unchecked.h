#pragma once

#include <cstdint>

#include "common/simt/matrix/store_matrix.h"

namespace simt {
inline namespace unchecked {

/// See simt::cuda::stmatrix. Without the caller's line, which nothing can bring: what is said of lanes that went
/// elsewhere names this one.
template <class V, class... Register>
void stmatrix(V& row, Register... registers) {
    static_assert(sizeof(V) == 16, "a row of a matrix is 16 bytes: pass tile.vec<WideVector<T>>(row, column)");
    std::uint32_t of[] = {registers...};
    store_matrices(sizeof...(Register), false, {&row, sizeof(V), {}, of}, SourceSite::here());
}

/// See simt::cuda::stmatrix_trans.
template <class V, class... Register>
void stmatrix_trans(V& row, Register... registers) {
    static_assert(sizeof(V) == 16, "a row of a matrix is 16 bytes: pass tile.vec<WideVector<T>>(row, column)");
    std::uint32_t of[] = {registers...};
    store_matrices(sizeof...(Register), true, {&row, sizeof(V), {}, of}, SourceSite::here());
}

}  // namespace unchecked
}  // namespace simt
