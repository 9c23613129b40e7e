#pragma once

#include "common/simt/matrix/matrix_instructions.h"

namespace simt {
inline namespace cpu {

/// Waits for all lanes, then writes `matrices` 8x8 matrices from the registers of all to the rows that lanes 0 to 8 *
/// matrices - 1 passed. A race is reported with the thread that passed the row, although others gave the elements.
void store_matrices(int matrices, bool transposed, const MatrixRow& row, SourceSite site);

}  // namespace cpu
}  // namespace simt
