#include <array>
#include <cstring>

#include "common/simt/language/float16.h"
#include "common/simt/machine/block.h"
#include "common/simt/matrix/matrix_instructions.h"

namespace simt {
inline namespace cpu {
namespace {

template <int matrices, bool transposed>
void run_ldmatrix(Block& block, int warp, const std::array<const void*, 32>& rows) {
    std::uint16_t element[matrices][8][8];
    for (int lane = 0; lane < 8 * matrices; ++lane) {
        const MatrixRow& row = *static_cast<const MatrixRow*>(rows[lane]);
        if (block.checks() == Checks::on) {
            const std::size_t offset = block.shared.offset_of(row.address);
            const int thread = warp * 32 + lane;
            block.shared.read(SharedMemory::elements_of(offset, 16, row.element_bytes), thread, block.warp_interval(),
                              row.site);
            block.traffic.shared(false, offset, 16, thread, row.site);
        }
        std::memcpy(element[lane / 8][lane % 8], row.address, 16);
    }
    for (int lane = 0; lane < 32; ++lane) {
        const int i = lane / 4, j = lane % 4 * 2;
        std::uint32_t registers[matrices];
        for (int m = 0; m < matrices; ++m) {
            const std::uint32_t low = transposed ? element[m][j][i] : element[m][i][j];
            const std::uint32_t high = transposed ? element[m][j + 1][i] : element[m][i][j + 1];
            registers[m] = low | high << 16;
        }
        std::memcpy(static_cast<const MatrixRow*>(rows[lane])->registers, registers, sizeof(registers));
    }
}

template <int matrices, bool transposed>
constexpr Block::WarpInstruction kLdmatrix{"ldmatrix", run_ldmatrix<matrices, transposed>};

const Block::WarpInstruction& ldmatrix_of(int matrices, bool transposed) {
    if (transposed) return matrices == 1 ? kLdmatrix<1, true> : matrices == 2 ? kLdmatrix<2, true> : kLdmatrix<4, true>;
    return matrices == 1 ? kLdmatrix<1, false> : matrices == 2 ? kLdmatrix<2, false> : kLdmatrix<4, false>;
}

template <class T>
struct Operands {
    FragmentC* d;
    const FragmentA<T>* a;
    const FragmentB<T>* b;
    const FragmentC* c;
};

template <class T>
float element(const std::uint32_t* registers, int i) {
    return T::from_bits(static_cast<std::uint16_t>(registers[i / 2] >> i % 2 * 16));
}

template <class T>
void run_mma(Block&, int, const std::array<const void*, 32>& lanes) {
    float A[16][16], B[16][8], D[16][8];
    for (int lane = 0; lane < 32; ++lane) {
        const auto& own = *static_cast<const Operands<T>*>(lanes[lane]);
        for (int i = 0; i < 8; ++i)
            A[FragmentA<T>::row(lane, i)][FragmentA<T>::column(lane, i)] = element<T>(own.a->registers, i);
        for (int i = 0; i < 4; ++i) {
            B[FragmentB<T>::row(lane, i)][FragmentB<T>::column(lane, i)] = element<T>(own.b->registers, i);
            D[FragmentC::row(lane, i)][FragmentC::column(lane, i)] = own.c->element[i];
        }
    }
    for (int m = 0; m < 16; ++m)
        for (int k = 0; k < 16; ++k)
            for (int n = 0; n < 8; ++n) D[m][n] += A[m][k] * B[k][n];
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < 4; ++i)
            static_cast<const Operands<T>*>(lanes[lane])->d->element[i] =
                D[FragmentC::row(lane, i)][FragmentC::column(lane, i)];
}

template <class T>
constexpr Block::WarpInstruction kMma{"mma.sync", run_mma<T>};

}  // namespace

void load_matrices(int matrices, bool transposed, const MatrixRow& row, SourceSite site) {
    Block& block = Block::current();
    block.require_feature(Feature::ldmatrix, site);
    block.warp_instruction(ldmatrix_of(matrices, transposed), &row, site);
}

template <class T>
void mma_m16n8k16(FragmentC& d, const FragmentA<T>& a, const FragmentB<T>& b, const FragmentC& c, SourceSite site) {
    Block& block = Block::current();
    block.require_feature(Feature::mma, site);
    const Operands<T> operands{&d, &a, &b, &c};
    block.warp_instruction(kMma<T>, &operands, site);
}

template void mma_m16n8k16(FragmentC&, const FragmentA<f16>&, const FragmentB<f16>&, const FragmentC&, SourceSite);
template void mma_m16n8k16(FragmentC&, const FragmentA<bf16>&, const FragmentB<bf16>&, const FragmentC&, SourceSite);

}  // namespace cpu
}  // namespace simt
