// What phases share in common/attention, on its own: copies of tiles, the rules by which sums are merged, the swizzle,
// and the choice among compiled kernels.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "common/attention/arranged_tile.cuh"
#include "common/attention/copy_tile.cuh"
#include "common/attention/dispatch.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/swizzle.cuh"
#include "common/simt/report/launch_log.h"

namespace ladder::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <class Kernel>
void call_kernel(Kernel kernel) {
    kernel();
}

template <class T>
simt::GlobalTensor<T, 2> view(const char* name, T* data, std::int64_t rows, std::int64_t columns, std::int64_t pitch) {
    return simt::global_tensor<T, 2>({.name = name,
                                      .data = const_cast<float*>(reinterpret_cast<const float*>(data)),
                                      .rank = 2,
                                      .extents = {rows, columns},
                                      .strides = {pitch, 1}});
}

template <class T>
class CopyTileAsync : public ::testing::Test {
  protected:
    static constexpr int kRows = 16, kColumns = 32, kThreads = 64, kFirst = 8, kLength = 21, kPitch = 32;

    /// A tile of rows from kFirst on, of a matrix that ends before it does; as each element is read by a thread that
    /// did not copy it. `wait`: as it must be.
    std::vector<float> copied(int width, bool vectorized, bool wait = true) {
        alignas(16) static T in[kLength * kPitch];
        static T out[kRows * kColumns];
        for (int i = 0; i < kLength * kPitch; ++i) in[i] = T(float(i % 251 + 1));
        const auto from = view<const T>("in", in, kLength, width, kPitch);
        const auto to = view<T>("out", out, kRows, kColumns, kColumns);
        const auto kernel = [=] {
            const auto tile = simt::SharedArena().template tile<T, kRows, kColumns>("tile");
            copy_tile_async<kThreads, kRows, kColumns>(tile, from, kFirst, vectorized);
            simt::commit_copies();
            if (wait) simt::wait_copies<0>();
            __syncthreads();  // everyone's part has arrived
            for (int i = kRows * kColumns - 1 - int(threadIdx.x); i >= 0; i -= kThreads) {
                const T element = tile(i / kColumns, i % kColumns);
                to(i / kColumns, i % kColumns) = element;
            }
            simt::wait_copies<0>();
        };
        const cudaLaunchConfig_t config{
            .gridDim = dim3(1), .blockDim = dim3(kThreads), .dynamicSmemBytes = simt::shared_bytes<T>(kRows, kColumns)};
        simt::launch("copy_kernel", config, call_kernel<decltype(kernel)>, kernel);
        return std::vector<float>(out, out + kRows * kColumns);
    }

    void expect_tile(int width, bool vectorized) {
        const std::vector<float> tile = copied(width, vectorized);
        for (int r = 0; r < kRows; ++r)
            for (int c = 0; c < kColumns; ++c) {
                const bool exists = kFirst + r < kLength && c < width;
                const float expected = exists ? float(T(float(((kFirst + r) * kPitch + c) % 251 + 1))) : 0.0f;
                ASSERT_EQ(tile[r * kColumns + c], expected) << "row " << r << ", column " << c;
            }
    }
};

using Elements = ::testing::Types<float, simt::f16, simt::bf16>;
TYPED_TEST_SUITE(CopyTileAsync, Elements);

TYPED_TEST(CopyTileAsync, MovesRowsThatAreAlignedIn16Bytes) {
    this->expect_tile(24, true);
    this->expect_tile(32, true);
}

TYPED_TEST(CopyTileAsync, MovesOtherRowsElementByElement) {
    this->expect_tile(23, false);
    this->expect_tile(1, false);
}

TYPED_TEST(CopyTileAsync, IsUnderWayUntilSomebodyWaits) {
    EXPECT_THROW(this->copied(32, true, /*wait=*/false), simt::MachineError);
}

TEST(MergeExponent, IsTheDifference) {
    EXPECT_EQ(merge_exponent(1.0f, 3.5f), -2.5f);
    EXPECT_EQ(merge_exponent(-kInfinity, 3.0f), -kInfinity);
    EXPECT_EQ(merge_exponent(3.0f, kInfinity), -kInfinity);
}

TEST(MergeExponent, NeverSubtractsInfinities) {
    EXPECT_EQ(merge_exponent(-kInfinity, -kInfinity), 0.0f);
    EXPECT_EQ(merge_exponent(kInfinity, kInfinity), 0.0f);
    EXPECT_EQ(merge_weight(-kInfinity, -kInfinity), 1.0f);
}

TEST(SafeMaximum, GivesScoresOfMinusInfinityNoWeight) {
    EXPECT_EQ(std::exp(-kInfinity - safe_maximum(-kInfinity)), 0.0f);
    EXPECT_EQ(std::exp(kInfinity - safe_maximum(kInfinity)), kInfinity);
    EXPECT_EQ(safe_maximum(-7.0f), -7.0f);
}

TEST(Share, LeavesOutPartsThatSawNothingWhereOthersCount) {
    EXPECT_EQ(Share(-kInfinity, 2.0f).of(NAN), 0.0f);
    EXPECT_EQ(Share(2.0f, 2.0f).of(3.0f), 3.0f);
    EXPECT_TRUE(std::isnan(Share(-kInfinity, -kInfinity).of(NAN)));
}

template <int D>
void expect_different_banks() {
    for (int first = 0; first < 16; first += 8)
        for (int column = 0; column < D; column += 8) {
            std::set<int> banks;
            for (int row = first; row < first + 8; ++row) banks.insert((row * D + swizzled<D>(row, column)) / 8 % 8);
            EXPECT_EQ(banks.size(), 8u) << "D = " << D << ", column " << column;
        }
    for (int row = 0; row < 16; ++row) {
        std::set<int> columns;
        for (int column = 0; column < D; ++column) columns.insert(swizzled<D>(row, column));
        EXPECT_EQ(columns.size(), std::size_t(D));
        EXPECT_EQ(*columns.rbegin(), D - 1);
    }
}

TEST(Swizzled, EightRowsOfAColumnLieInDifferentBanks) {
    expect_different_banks<32>();
    expect_different_banks<64>();
    expect_different_banks<96>();
    expect_different_banks<128>();
    expect_different_banks<192>();
    expect_different_banks<256>();
}

/// Passes through shared memory for each 8x8 matrix, on average over all blocks of a tile.
template <class Rows, int D>
double passes_of_a_matrix() {
    const auto kernel = [] {
        const auto whole = simt::SharedArena().template tile<simt::f16, 32, D>("tile");
        const auto tile = arranged<Rows>(whole);
        for (int i = int(threadIdx.x); i < 32 * D; i += 32) tile(i / D, i % D) = simt::f16(0.0f);
        __syncwarp();  // the tile is complete before the warp reads it
        for (int row = 0; row < 32; row += 16)
            for (int column = 0; column < D; column += 16) {
                std::uint32_t registers[4];
                simt::ldmatrix(registers, tile.block(row, column));
                simt::ldmatrix_trans(registers, tile.block(row, column));
                simt::ldmatrix(registers, tile.block_of_columns(row, column));
            }
    };
    const cudaLaunchConfig_t config{
        .gridDim = dim3(1), .blockDim = dim3(32), .dynamicSmemBytes = simt::shared_bytes<simt::f16>(32, D)};
    const simt::LaunchLog log;
    simt::launch("ldmatrix_kernel", config, call_kernel<decltype(kernel)>, kernel);
    const simt::Counters counters = log.total();
    const std::uint64_t stores = 32 * D / 32, matrices = 3 * 4 * (2 * D / 16);
    return double(counters.shared_wavefronts - stores) / double(matrices);
}

template <int... D>
void expect_passes(std::integer_sequence<int, D...>) {
    for (const auto& [head_dim, plain, swizzled] :
         {std::tuple(D, passes_of_a_matrix<PlainRows, D>(), passes_of_a_matrix<SwizzledRows, D>())...}) {
        EXPECT_EQ(plain, head_dim % 64 == 0 ? 8.0 : 4.0) << "D = " << head_dim;
        EXPECT_EQ(swizzled, 1.0) << "D = " << head_dim;
    }
}

TEST(ArrangedTile, SwizzledRowsAreReadInOnePassAndPlainOnesInEightOrFour) { expect_passes(MmaHeadDims()); }

int compiled_head_dim(std::int64_t head_dim) {
    int found = 0;
    with_head_dim(head_dim, [&]<int D>(std::integral_constant<int, D>) {
        EXPECT_EQ(found, 0) << "called twice";
        found = D;
    });
    return found;
}

TEST(WithHeadDim, TakesTheNextLargerOne) {
    EXPECT_EQ(compiled_head_dim(1), 32);
    EXPECT_EQ(compiled_head_dim(32), 32);
    EXPECT_EQ(compiled_head_dim(33), 64);
    EXPECT_EQ(compiled_head_dim(128), 128);
    EXPECT_EQ(compiled_head_dim(256), 256);
    EXPECT_THROW(compiled_head_dim(257), std::invalid_argument);
}

TEST(WithTiledHeadDim, TakesTheLargestBeyondIt) {
    for (const auto& [head_dim, compiled] : {std::pair(1, 32), std::pair(65, 128), std::pair(256, 128)}) {
        int found = 0;
        with_tiled_head_dim(head_dim, [&]<int D>(std::integral_constant<int, D>) { found = D; });
        EXPECT_EQ(found, compiled);
    }
}

/// B_r and D for two sequences of three heads.
std::pair<int, int> register_tile(std::int64_t queries, std::int64_t head_dim, int multiprocessors,
                                  Mask mask = Mask::none, std::int64_t keys = 1) {
    AttentionArguments problem;
    problem.q.extents = {2, 3, queries, head_dim};
    problem.k.extents = {2, 3, keys, head_dim};
    problem.mask = mask;
    problem.multiprocessors = multiprocessors;
    std::pair<int, int> found;
    with_register_tiles(problem, [&]<int B_r, int D>(std::integral_constant<int, B_r>, std::integral_constant<int, D>) {
        found = {B_r, D};
    });
    return found;
}

TEST(WithRegisterTiles, TakesLargeOnesWhereEveryMultiprocessorGetsABlock) {
    EXPECT_EQ(register_tile(129, 64, 12), std::pair(128, 64));
    EXPECT_EQ(register_tile(128, 64, 12), std::pair(64, 64));
    EXPECT_EQ(register_tile(129, 64, 13), std::pair(64, 64));
    EXPECT_EQ(register_tile(1, 96, 100), std::pair(64, 96));
}

TEST(WithRegisterTiles, TakesSmallOnesForShortMaskedSequencesOfSomeHeadDims) {
    for (const Mask mask : {Mask::causal_bottom_right, Mask::causal_top_left})
        for (const auto& [head_dim, compiled, queries] :
             {std::tuple(64, 64, 128), std::tuple(65, 96, 64), std::tuple(96, 96, 64), std::tuple(97, 128, 128),
              std::tuple(128, 128, 128), std::tuple(129, 256, 64)}) {
            EXPECT_EQ(register_tile(1024, head_dim, 1, mask, 1024), std::pair(queries, compiled));
            EXPECT_EQ(register_tile(1024, head_dim, 1, mask, 1025), std::pair(128, compiled));
            EXPECT_EQ(register_tile(1025, head_dim, 1, mask, 1024), std::pair(128, compiled));
            EXPECT_EQ(register_tile(1024, head_dim, 1, Mask::none, 1024), std::pair(128, compiled));
        }
}

TEST(WithRegisterTiles, TakesTheNextLargerHeadDim) {
    for (const auto& [head_dim, compiled] : {std::pair(1, 32), std::pair(32, 32), std::pair(33, 64), std::pair(65, 96),
                                             std::pair(97, 128), std::pair(129, 256), std::pair(256, 256)})
        EXPECT_EQ(register_tile(1, head_dim, 1), std::pair(128, compiled));
    EXPECT_THROW(register_tile(1, 257, 1), std::invalid_argument);
}

TEST(WithElementType, TakesTheOneOfThatTag) {
    for (const simt::ElementType type : {simt::ElementType::f32, simt::ElementType::f16, simt::ElementType::bf16}) {
        int calls = 0;
        with_element_type(type, [&]<class T>(std::type_identity<T>) {
            EXPECT_EQ(element_type_of<T>(), type);
            ++calls;
        });
        EXPECT_EQ(calls, 1);
    }
    EXPECT_EQ(element_type_of<simt::e4m3>(), simt::ElementType::e4m3);
    EXPECT_EQ(element_type_of<simt::e5m2>(), simt::ElementType::e5m2);
    EXPECT_THROW(with_element_type(simt::ElementType(100), [](auto) {}), std::invalid_argument);
}

}  // namespace
}  // namespace ladder::cpu
