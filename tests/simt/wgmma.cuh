// Kernels that show what wgmma, stmatrix, elect.sync and setmaxnreg do on each machine. nvcc compiles them for sm_90a
// alone.

#include "tests/simt/wgmma.h"

#include <cstring>
#include <type_traits>

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// Whole panels.
template <class T, simt::Swizzle swizzle>
constexpr int whole_panels(int columns) {
    constexpr int width = int(simt::swizzle_span(swizzle) / sizeof(T));
    return (columns + width - 1) / width * width;
}

/// Copies a matrix to a tile that may have more columns, all threads, element by element.
template <class Tile, class T>
__device__ void fill_panels(const Tile& tile, const simt::GlobalTensor<const T, 2>& matrix) {
    const int columns = int(matrix.extent(1));
    for (int i = int(threadIdx.x); i < Tile::rows() * columns; i += int(blockDim.x)) {
        const T element = matrix(i / columns, i % columns);
        tile(i / columns, i % columns) = element;
    }
}

/// Every bit of a tile set: NaN in each of its types.
template <class Tile>
__device__ void fill_nan(const Tile& tile) {
    using Piece = simt::WideVector<typename Tile::Element>;
    Piece nan;
    std::memset(&nan, 0xff, sizeof(nan));
    constexpr int width = int(sizeof(Piece) / sizeof(typename Tile::Element)), wide = Tile::columns() / width;
    for (int i = int(threadIdx.x); i < Tile::rows() * wide; i += int(blockDim.x))
        tile.template vec<Piece>(i / wide, i % wide * width) = nan;
}

template <class T, int N, simt::Swizzle swizzle, SourceOfA source, simt::Major b_major>
struct TrialTiles {
    static constexpr int kStep = 32 / int(sizeof(T));
    static constexpr int kBRows = b_major == simt::Major::k ? N : kTrialDepth;
    static constexpr int kBColumns = b_major == simt::Major::k ? kTrialDepth : whole_panels<T, swizzle>(N);
    static constexpr std::size_t bytes =
        simt::panel_bytes<T>(kTrialRows, kTrialDepth) + simt::panel_bytes<T>(2 * kBRows, kBColumns);
};

template <class T, int N, simt::Swizzle swizzle, SourceOfA source, simt::Major b_major>
__global__ void __launch_bounds__(256, 1)
    product_kernel(simt::GlobalTensor<const T, 2> a, simt::GlobalTensor<const std::uint32_t, 2> a_words,
                   simt::GlobalTensor<const T, 2> b, simt::GlobalTensor<const float, 2> c,
                   simt::GlobalTensor<float, 2> d, bool accumulate) {
    using Tiles = TrialTiles<T, N, swizzle, source, b_major>;
    constexpr int kStep = Tiles::kStep, kSteps = kTrialDepth / kStep;
    const int thread = int(threadIdx.x), first_row = thread / 128 * 64;
    simt::SharedArena arena;
    const auto A = arena.panels<T, kTrialRows, kTrialDepth, swizzle>("A");
    const auto ring = arena.panels<T, 2 * Tiles::kBRows, Tiles::kBColumns, swizzle>("B");
    const auto B = ring.template rows_from<Tiles::kBRows>(Tiles::kBRows);
    fill_panels(A, a);
    fill_nan(ring);
    __syncthreads();  // the NaN lie before the stage's own elements
    fill_panels(B, b);

    simt::Accumulator<N> D;
    simt::OperandA<T> registers[kSteps];
    for (int i = 0; i < D.size; ++i) D[i] = c(first_row + D.row(thread, i), D.column(thread, i));
    if constexpr (source == SourceOfA::registers) {
        // The layout as the PTX ISA has it: a register has 4 bytes of row g, or g + 8, from byte 4 t on, or 16 + 4 t.
        const int group = thread % 32 >> 2, in_group = thread % 4, row = first_row + thread % 128 / 32 * 16 + group;
#pragma unroll
        for (int k = 0; k < kSteps; ++k)
#pragma unroll
            for (int r = 0; r < 4; ++r)
                registers[k].set(r, a_words(row + (r & 1 ? 8 : 0), 8 * k + in_group + (r & 2 ? 4 : 0)));
    }
    simt::show_to_async();
    __syncthreads();  // all tiles are complete, and shown to the tensor cores

    simt::begin_products(D, registers);
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
        const bool sums = accumulate || k > 0;
        const auto b_step = [&] {
            if constexpr (b_major == simt::Major::k)
                return simt::k_major(B, 0, kStep * k);
            else
                return simt::mn_major(B, kStep * k, 0);
        }();
        if constexpr (source == SourceOfA::registers)
            simt::multiply(D, registers[k], b_step, sums);
        else if constexpr (source == SourceOfA::k_major)
            simt::multiply(D, simt::k_major(A, first_row, kStep * k), b_step, sums);
        else
            simt::multiply(D, simt::mn_major(A, kStep * k, first_row), b_step, sums);
    }
    simt::commit_products();
    simt::wait_products<0>(D);
    for (int i = 0; i < D.size; ++i) d(first_row + D.row(thread, i), D.column(thread, i)) = D[i];
}

template <class T, int N, simt::Swizzle swizzle, SourceOfA source, simt::Major b_major>
void launch_product(const ProductTrial& t) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(1);
    config.blockDim = dim3(256);
    config.dynamicSmemBytes = TrialTiles<T, N, swizzle, source, b_major>::bytes;
    config.stream = static_cast<cudaStream_t>(t.stream);
    simt::TensorArgument words = t.a;
    words.extents[1] = words.strides[0] = kTrialDepth * int(sizeof(T)) / 4;
    simt::launch("product_kernel", config, product_kernel<T, N, swizzle, source, b_major>,
                 simt::global_tensor<const T, 2>(t.a), simt::global_tensor<const std::uint32_t, 2>(words),
                 simt::global_tensor<const T, 2>(t.b), simt::global_tensor<const float, 2>(t.c),
                 simt::global_tensor<float, 2>(t.d), t.accumulate);
}

template <class T, int N, simt::Swizzle swizzle, SourceOfA source>
void launch_product(const ProductTrial& t) {
    if (t.b_is_k_major)
        launch_product<T, N, swizzle, source, simt::Major::k>(t);
    else if constexpr (sizeof(T) == 2)
        launch_product<T, N, swizzle, source, simt::Major::mn>(t);
}

template <class T, int N, simt::Swizzle swizzle>
void launch_product(const ProductTrial& t) {
    if (t.source == SourceOfA::k_major) launch_product<T, N, swizzle, SourceOfA::k_major>(t);
    if (t.source == SourceOfA::registers) launch_product<T, N, swizzle, SourceOfA::registers>(t);
    if constexpr (sizeof(T) == 2)
        if (t.source == SourceOfA::mn_major) launch_product<T, N, swizzle, SourceOfA::mn_major>(t);
}

/// 96 columns: of all layouts.
template <class T>
void launch_layout(const ProductTrial& t) {
    if (t.swizzle == simt::Swizzle::b32) launch_product<T, 96, simt::Swizzle::b32>(t);
    if (t.swizzle == simt::Swizzle::b64) launch_product<T, 96, simt::Swizzle::b64>(t);
    if (t.swizzle == simt::Swizzle::b128) launch_product<T, 96, simt::Swizzle::b128>(t);
}

/// Other numbers of columns: of f16, in two of the layouts.
template <int... N>
void launch_columns(const ProductTrial& t) {
    using simt::Major;
    using simt::Swizzle;
    const auto launch = [&]<int n>(std::integral_constant<int, n>) {
        if (t.n != n) return;
        if (t.source == SourceOfA::registers)
            launch_product<simt::f16, n, Swizzle::b128, SourceOfA::registers, Major::mn>(t);
        else
            launch_product<simt::f16, n, Swizzle::b128, SourceOfA::k_major, Major::k>(t);
    };
    (launch(std::integral_constant<int, N>()), ...);
}

void launch_product(const ProductTrial& t) {
    if (t.n != 96) return launch_columns<8, 16, 64, 80, 128, 176, 256>(t);
    if (t.a.type == simt::ElementType::f16) launch_layout<simt::f16>(t);
    if (t.a.type == simt::ElementType::bf16) launch_layout<simt::bf16>(t);
    if (t.a.type == simt::ElementType::e4m3) launch_layout<simt::e4m3>(t);
    if (t.a.type == simt::ElementType::e5m2) launch_layout<simt::e5m2>(t);
}

template <class T>
__global__ void __launch_bounds__(128, 1)
    product_chain_kernel(simt::GlobalTensor<const T, 2> q, simt::GlobalTensor<const T, 2> k,
                         simt::GlobalTensor<const T, 2> v, simt::GlobalTensor<float, 2> o) {
    const int thread = int(threadIdx.x);
    simt::SharedArena arena;
    const auto Q_i = arena.panels<T, 64, 64, simt::Swizzle::b128>("Q_i");
    const auto K_j = arena.panels<T, 64, 64, simt::Swizzle::b128>("K_j");
    const auto V_j = arena.panels<T, 64, 64, simt::Swizzle::b128>("V_j");
    fill_panels(Q_i, q);
    fill_panels(K_j, k);
    fill_panels(V_j, v);
    simt::show_to_async();
    __syncthreads();  // the tiles are complete, and shown to the tensor cores

    simt::Accumulator<64> S_ij, O_i;
    simt::begin_products(S_ij);
#pragma unroll
    for (int step = 0; step < 4; ++step)
        simt::multiply(S_ij, simt::k_major(Q_i, 0, 16 * step), simt::k_major(K_j, 0, 16 * step), step > 0);
    simt::commit_products();
    simt::wait_products<0>(S_ij);
    simt::OperandA<T> P_ij[4];
#pragma unroll
    for (int step = 0; step < 4; ++step) P_ij[step] = simt::to_operand<T>(S_ij, step);
    simt::begin_products(O_i, P_ij);
#pragma unroll
    for (int step = 0; step < 4; ++step) simt::multiply(O_i, P_ij[step], simt::mn_major(V_j, 16 * step, 0), step > 0);
    simt::commit_products();
    simt::wait_products<0>(O_i, P_ij);
    for (int i = 0; i < O_i.size; ++i) o(O_i.row(thread, i), O_i.column(thread, i)) = O_i[i];
}

void launch_scores(const ScoresTrial& t) {
    const auto launch = [&]<class T>(std::type_identity<T>) {
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(1);
        config.blockDim = dim3(128);
        config.dynamicSmemBytes = 3 * simt::panel_bytes<T>(64, 64);
        config.stream = static_cast<cudaStream_t>(t.stream);
        simt::launch("product_chain_kernel", config, product_chain_kernel<T>, simt::global_tensor<const T, 2>(t.q),
                     simt::global_tensor<const T, 2>(t.k), simt::global_tensor<const T, 2>(t.v),
                     simt::global_tensor<float, 2>(t.o));
    };
    if (t.q.type == simt::ElementType::f16)
        launch(std::type_identity<simt::f16>());
    else
        launch(std::type_identity<simt::bf16>());
}

/// The row that lane `lane` passes to stmatrix: not its own, so that an address taken from the wrong lane shows.
__device__ inline int dealt_row(int lane) { return (lane * 5 + 3) % 32; }

template <int matrices, bool transposed>
__global__ void __launch_bounds__(32)
    stmatrix_kernel(simt::GlobalTensor<const std::uint32_t, 2> registers, simt::GlobalTensor<std::uint16_t, 2> rows) {
    using Row = simt::WideVector<std::uint16_t>;
    const int lane = int(threadIdx.x);
    // Rows 48 bytes apart: a multiple of 16, and no two rows of a matrix follow each other.
    const auto tile = simt::SharedArena().tile<std::uint16_t, 32, 8, 24>("rows");
    for (int i = 0; i < 8; ++i) tile(lane, i) = std::uint16_t(0xffff);
    __syncwarp();  // before others write the row

    const std::uint32_t r[4] = {registers(lane, 0), registers(lane, 1), registers(lane, 2), registers(lane, 3)};
    const auto store = [&](const auto&... of) {
        if constexpr (transposed)
            simt::stmatrix_trans(tile.template vec<Row>(dealt_row(lane), 0), std::uint32_t(of)...);
        else
            simt::stmatrix(tile.template vec<Row>(dealt_row(lane), 0), std::uint32_t(of)...);
    };
    if constexpr (matrices == 1) store(r[0]);
    if constexpr (matrices == 2) store(r[0], r[1]);
    if constexpr (matrices == 4) store(r[0], r[1], r[2], r[3]);
    __syncwarp();  // every row is written
    for (int i = 0; i < 8; ++i) {
        const std::uint16_t element = tile(lane, i);
        rows(lane, i) = element;
    }
}

template <int matrices>
void launch_stmatrix(const StmatrixTrial& t) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(1);
    config.blockDim = dim3(32);
    config.dynamicSmemBytes = simt::shared_bytes<std::uint16_t>(32, 24);
    config.stream = static_cast<cudaStream_t>(t.stream);
    simt::launch(
        "stmatrix_kernel", config, t.transposed ? stmatrix_kernel<matrices, true> : stmatrix_kernel<matrices, false>,
        simt::global_tensor<const std::uint32_t, 2>(t.registers), simt::global_tensor<std::uint16_t, 2>(t.rows));
}

void launch_stmatrix(const StmatrixTrial& t) {
    if (t.matrices == 1) launch_stmatrix<1>(t);
    if (t.matrices == 2) launch_stmatrix<2>(t);
    if (t.matrices == 4) launch_stmatrix<4>(t);
}

__global__ void __launch_bounds__(64) election_kernel(simt::GlobalTensor<int, 1> elected) {
    const unsigned votes = __ballot_sync(0xffffffffu, simt::elect_one());
    int lanes = 0;
    for (int lane = 0; lane < 32; ++lane) lanes += int(votes >> lane & 1);
    if (threadIdx.x % 32 == 0) elected(threadIdx.x / 32) = lanes;
}

void launch_election(const ElectionTrial& t) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(1);
    config.blockDim = dim3(64);
    config.stream = static_cast<cudaStream_t>(t.stream);
    simt::launch("election_kernel", config, election_kernel, simt::global_tensor<int, 1>(t.elected));
}

__global__ void __launch_bounds__(384, 1) registers_kernel(simt::GlobalTensor<int, 1> out) {
    const int thread = int(threadIdx.x);
    if (thread / 128 == 0) {
        simt::release_registers<24>();
        out(thread) = thread * thread;
    } else {
        simt::claim_registers<240>();
        out(thread) = thread * thread;
    }
}

void launch_registers(const RegisterTrial& t) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(1);
    config.blockDim = dim3(384);
    config.stream = static_cast<cudaStream_t>(t.stream);
    simt::launch("registers_kernel", config, registers_kernel, simt::global_tensor<int, 1>(t.out));
}

}  // namespace ladder::SIMT_MACHINE
