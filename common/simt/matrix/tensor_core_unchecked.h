#pragma once

#include "common/simt/matrix/matrix_instructions.h"

namespace simt {
inline namespace unchecked {

template <class Fragment, class V>
void ldmatrix(Fragment& fragment, const V& row, SourceSite site = SourceSite::here()) {
    load_matrices(LdmatrixOf<Fragment, V>::matrices, false, {&row, sizeof(V), site, &fragment}, site);
}

template <class Fragment, class V>
void ldmatrix_trans(Fragment& fragment, const V& row, SourceSite site = SourceSite::here()) {
    load_matrices(LdmatrixOf<Fragment, V>::matrices, true, {&row, sizeof(V), site, &fragment}, site);
}

}  // namespace unchecked
}  // namespace simt
