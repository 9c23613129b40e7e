#pragma once

#include <cstdint>

#include "common/simt/matrix/store_matrix.h"
#include "common/simt/views/views_cpu.h"

namespace simt {
inline namespace cpu {

/// stmatrix() and stmatrix_trans(). The row brings the line, since nothing can follow a list of registers.
template <bool transposed, class V, class... Register>
void store_matrices(const Ref<V, SharedAccess>& row, Register... registers) {
    static_assert(sizeof(V) == 16, "a row of a matrix is 16 bytes: pass tile.vec<WideVector<T>>(row, column)");
    constexpr int matrices = sizeof...(Register);
    static_assert(matrices == 1 || matrices == 2 || matrices == 4, "stmatrix writes 1, 2 or 4 matrices");
    std::uint32_t of[] = {registers...};
    const SourceSite site = row.memory().site;
    store_matrices(matrices, transposed, {row.address(), row.memory().element_bytes, site, of}, site);
}

/// See simt::cuda::stmatrix.
template <class V, class... Register>
void stmatrix(const Ref<V, SharedAccess>& row, Register... registers) {
    store_matrices<false>(row, registers...);
}

/// See simt::cuda::stmatrix_trans.
template <class V, class... Register>
void stmatrix_trans(const Ref<V, SharedAccess>& row, Register... registers) {
    store_matrices<true>(row, registers...);
}

}  // namespace cpu
}  // namespace simt
