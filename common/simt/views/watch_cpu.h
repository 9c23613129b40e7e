#pragma once

#include <cstdint>

#include "common/simt/language/vector.h"
#include "common/simt/machine/block.h"

namespace simt {
inline namespace cpu {

/// Shows a value to whoever records this launch (`./ladder trace`): an element of a matrix, `name`, that need not exist
/// in any memory, such as a score that lives in registers. Threads may show the same element, one after the other; the
/// last one counts. `name` must be a literal.
inline void watch(const char* name, std::int64_t row, std::int64_t column, float value) {
    Block::current().watch(name, row, column, value);
}

/// The same for neighbours along a row, from `column` on.
template <class T, int N>
void watch(const char* name, std::int64_t row, std::int64_t column, const Vector<T, N>& values) {
    for (int e = 0; e < N; ++e) watch(name, row, column + e, float(values.element[e]));
}

}  // namespace cpu
}  // namespace simt
