#include "common/simt/matrix/store_matrix.h"

#include <array>
#include <cstring>

#include "common/simt/machine/block.h"

namespace simt {
inline namespace cpu {
namespace {

template <int matrices, bool transposed>
void run_stmatrix(Block& block, int warp, const std::array<const void*, 32>& rows) {
    std::uint16_t element[matrices][8][8];
    for (int lane = 0; lane < 32; ++lane) {
        const int i = lane / 4, j = lane % 4 * 2;
        std::uint32_t registers[matrices];
        std::memcpy(registers, static_cast<const MatrixRow*>(rows[std::size_t(lane)])->registers, sizeof(registers));
        for (int m = 0; m < matrices; ++m) {
            (transposed ? element[m][j][i] : element[m][i][j]) = std::uint16_t(registers[m]);
            (transposed ? element[m][j + 1][i] : element[m][i][j + 1]) = std::uint16_t(registers[m] >> 16);
        }
    }
    for (int lane = 0; lane < 8 * matrices; ++lane) {
        const MatrixRow& row = *static_cast<const MatrixRow*>(rows[std::size_t(lane)]);
        const std::size_t offset = block.shared.offset_of(row.address);
        if (block.checks() == Checks::on) {
            const int thread = warp * 32 + lane;
            block.shared.write(SharedMemory::elements_of(offset, 16, row.element_bytes), thread, block.warp_interval(),
                               row.site);
            block.traffic.shared(true, offset, 16, thread, row.site);
        }
        std::memcpy(block.shared.data() + offset, element[lane / 8][lane % 8], 16);
    }
}

template <int matrices, bool transposed>
constexpr Block::WarpInstruction kStmatrix{"stmatrix", run_stmatrix<matrices, transposed>};

const Block::WarpInstruction& stmatrix_of(int matrices, bool transposed) {
    if (transposed) return matrices == 1 ? kStmatrix<1, true> : matrices == 2 ? kStmatrix<2, true> : kStmatrix<4, true>;
    return matrices == 1 ? kStmatrix<1, false> : matrices == 2 ? kStmatrix<2, false> : kStmatrix<4, false>;
}

}  // namespace

void store_matrices(int matrices, bool transposed, const MatrixRow& row, SourceSite site) {
    Block& block = Block::current();
    block.require_feature(Feature::tma, site);
    block.warp_instruction(stmatrix_of(matrices, transposed), &row, site);
}

}  // namespace cpu
}  // namespace simt
