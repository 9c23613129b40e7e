#pragma once

#include "common/simt/matrix/matrix_instructions.h"
#include "common/simt/views/views_cpu.h"

namespace simt {
inline namespace cpu {

/// See simt::cuda::ldmatrix.
template <class Fragment, class V>
void ldmatrix(Fragment& fragment, const Ref<V, SharedAccess>& row, SourceSite site = SourceSite::here()) {
    load_matrices(LdmatrixOf<Fragment, V>::matrices, false,
                  {row.address(), row.memory().element_bytes, row.memory().site, &fragment}, site);
}

/// See simt::cuda::ldmatrix_trans.
template <class Fragment, class V>
void ldmatrix_trans(Fragment& fragment, const Ref<V, SharedAccess>& row, SourceSite site = SourceSite::here()) {
    load_matrices(LdmatrixOf<Fragment, V>::matrices, true,
                  {row.address(), row.memory().element_bytes, row.memory().site, &fragment}, site);
}

}  // namespace cpu
}  // namespace simt
