// Kernels that show what ldmatrix and mma.sync do on each machine.

#include "tests/simt/tensor_core.h"

#include "common/attention/arranged_tile.cuh"
#include "common/attention/dispatch.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// The row that lane `lane` passes to ldmatrix: not its own, so that an address taken from the wrong lane shows.
__device__ inline int shuffled(int lane) { return (lane * 5 + 3) % 32; }

template <int matrices, bool transposed>
__global__ void __launch_bounds__(32)
    ldmatrix_kernel(simt::GlobalTensor<const std::uint16_t, 2> rows, simt::GlobalTensor<std::uint32_t, 2> out) {
    using Row = simt::WideVector<std::uint16_t>;
    const int lane = int(threadIdx.x);
    // Rows 48 bytes apart: a multiple of 16, and no two rows of a matrix follow each other.
    const auto tile = simt::SharedArena().tile<std::uint16_t, 32, 8, 24>("rows");
    tile.template vec<Row>(lane, 0) = rows.template vec<Row>(lane, 0);
    __syncwarp();  // every row is there before the warp reads it

    std::uint32_t registers[matrices];
    if constexpr (transposed)
        simt::ldmatrix_trans(registers, tile.template vec<Row>(shuffled(lane), 0));
    else
        simt::ldmatrix(registers, tile.template vec<Row>(shuffled(lane), 0));
    for (int i = 0; i < matrices; ++i) out(lane, i) = registers[i];
}

template <int matrices>
void launch_ldmatrix(const LdmatrixTrial& t) {
    const cudaLaunchConfig_t config{.gridDim = dim3(1),
                                    .blockDim = dim3(32),
                                    .dynamicSmemBytes = simt::shared_bytes<std::uint16_t>(32, 24),
                                    .stream = static_cast<cudaStream_t>(t.stream)};
    simt::launch("ldmatrix_kernel", config,
                 t.transposed ? ldmatrix_kernel<matrices, true> : ldmatrix_kernel<matrices, false>,
                 simt::global_tensor<const std::uint16_t, 2>(t.rows), simt::global_tensor<std::uint32_t, 2>(t.out));
}

void launch_ldmatrix(const LdmatrixTrial& t) {
    if (t.matrices == 1) launch_ldmatrix<1>(t);
    if (t.matrices == 2) launch_ldmatrix<2>(t);
    if (t.matrices == 4) launch_ldmatrix<4>(t);
}

/// Copies the matrix to the tile, one warp, element by element; or its transpose.
template <bool transposed = false, class T, int Rows, int Columns, int Pitch>
__device__ void fill(const simt::SharedTile<T, Rows, Columns, Pitch>& tile,
                     const simt::GlobalTensor<const T, 2>& matrix) {
    for (int i = int(threadIdx.x); i < Rows * Columns; i += 32) {
        const int r = i / Columns, c = i % Columns;
        const T element = transposed ? matrix(c, r) : matrix(r, c);
        tile(r, c) = element;
    }
}

template <class T, Loading loading>
__global__ void __launch_bounds__(32)
    multiply_kernel(simt::GlobalTensor<const T, 3> a, simt::GlobalTensor<const T, 3> b,
                    simt::GlobalTensor<const float, 3> c, simt::GlobalTensor<float, 3> d) {
    using Row = simt::WideVector<T>;
    const int lane = int(threadIdx.x);
    const auto A = a.slice(blockIdx.x), B = b.slice(blockIdx.x);
    const auto C = c.slice(blockIdx.x);
    const auto D = d.slice(blockIdx.x);

    simt::FragmentA<T> a_fragment;
    simt::FragmentB<T> b_fragment;
    simt::FragmentC sum;
    if constexpr (loading == Loading::by_hand) {
        // The layout as the PTX ISA has it, not as FragmentA and FragmentB say it.
        const int group = lane >> 2, in_group = lane % 4;
        for (int i = 0; i < 4; ++i) {
            const int row = i % 2 == 0 ? group : group + 8, column = in_group * 2 + (i < 2 ? 0 : 8);
            a_fragment.registers[i] = simt::pack<T>(float(A(row, column)), float(A(row, column + 1)));
        }
        for (int i = 0; i < 2; ++i) {
            const int row = in_group * 2 + (i == 0 ? 0 : 8);
            b_fragment.registers[i] = simt::pack<T>(float(B(row, group)), float(B(row + 1, group)));
        }
    } else {
        simt::SharedArena arena;
        const auto a_tile = arena.tile<T, 16, 16, 24>("A");
        fill(a_tile, A);
        if constexpr (loading == Loading::ldmatrix) {
            const auto b_tile = arena.tile<T, 8, 16, 24>("B^T");
            fill<true>(b_tile, B);
            __syncwarp();  // both tiles are complete before the warp reads them
            simt::ldmatrix(b_fragment, b_tile.template vec<Row>(lane % 8, lane / 8 % 2 * 8));
        } else {
            const auto b_tile = arena.tile<T, 16, 8>("B");
            fill(b_tile, B);
            __syncwarp();  // both tiles are complete before the warp reads them
            simt::ldmatrix_trans(b_fragment, b_tile.template vec<Row>(lane % 16, 0));
        }
        simt::ldmatrix(a_fragment, a_tile.template vec<Row>(lane % 16, lane / 16 * 8));
    }
    for (int i = 0; i < 4; ++i) sum.element[i] = C(simt::FragmentC::row(lane, i), simt::FragmentC::column(lane, i));
    simt::mma_m16n8k16(sum, a_fragment, b_fragment);
    for (int i = 0; i < 4; ++i) D(simt::FragmentC::row(lane, i), simt::FragmentC::column(lane, i)) = sum.element[i];
}

template <Loading loading>
void launch_mma(const MmaTrial& t) {
    with_element_type(t.a.type, [&]<class T>(std::type_identity<T>) {
        if constexpr (sizeof(T) == 2) {
            const cudaLaunchConfig_t config{
                .gridDim = dim3(unsigned(t.a.extents[0])),
                .blockDim = dim3(32),
                .dynamicSmemBytes = simt::shared_bytes<T>(16, 24) + simt::shared_bytes<T>(16, 24),
                .stream = static_cast<cudaStream_t>(t.stream)};
            simt::launch("multiply_kernel", config, multiply_kernel<T, loading>, simt::global_tensor<const T, 3>(t.a),
                         simt::global_tensor<const T, 3>(t.b), simt::global_tensor<const float, 3>(t.c),
                         simt::global_tensor<float, 3>(t.d));
        }
    });
}

void launch_mma(const MmaTrial& t) {
    if (t.loading == Loading::by_hand) launch_mma<Loading::by_hand>(t);
    if (t.loading == Loading::ldmatrix) launch_mma<Loading::ldmatrix>(t);
    if (t.loading == Loading::ldmatrix_trans) launch_mma<Loading::ldmatrix_trans>(t);
}

template <class T>
__global__ void __launch_bounds__(32)
    attention_kernel(simt::GlobalTensor<const T, 3> q, simt::GlobalTensor<const T, 3> k,
                     simt::GlobalTensor<const T, 3> v, simt::GlobalTensor<float, 3> o) {
    using Row = simt::WideVector<T>;
    const int lane = int(threadIdx.x);
    simt::SharedArena arena;
    const auto Q_i = arena.tile<T, 16, 16, 24>("Q_i");
    const auto K_j = arena.tile<T, 16, 16, 24>("K_j");
    const auto V_j = arena.tile<T, 16, 16, 24>("V_j");
    fill(Q_i, q.slice(blockIdx.x));
    fill(K_j, k.slice(blockIdx.x));
    fill(V_j, v.slice(blockIdx.x));
    __syncwarp();  // the tiles are complete before the warp reads them

    simt::FragmentA<T> query;
    simt::FragmentB<T> key[2], value[2];
    simt::ldmatrix(query, Q_i.template vec<Row>(lane % 16, lane / 16 * 8));
    simt::ldmatrix(key, K_j.template vec<Row>(lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8));
    simt::ldmatrix_trans(value, V_j.template vec<Row>(lane % 16, lane / 16 * 8));

    simt::FragmentC S_ij[2]{}, O_i[2]{};
    for (int n = 0; n < 2; ++n) simt::mma_m16n8k16(S_ij[n], query, key[n]);
    const simt::FragmentA<T> P_ij = simt::to_a<T>(S_ij[0], S_ij[1]);
    for (int n = 0; n < 2; ++n) simt::mma_m16n8k16(O_i[n], P_ij, value[n], O_i[n]);

    const auto O = o.slice(blockIdx.x);
    for (int n = 0; n < 2; ++n)
        for (int i = 0; i < 4; ++i)
            O(simt::FragmentC::row(lane, i), 8 * n + simt::FragmentC::column(lane, i)) = O_i[n].element[i];
}

void launch_attention(const AttentionTrial& t) {
    with_element_type(t.q.type, [&]<class T>(std::type_identity<T>) {
        if constexpr (sizeof(T) == 2) {
            const cudaLaunchConfig_t config{.gridDim = dim3(unsigned(t.q.extents[0])),
                                            .blockDim = dim3(32),
                                            .dynamicSmemBytes = 3 * simt::shared_bytes<T>(16, 24),
                                            .stream = static_cast<cudaStream_t>(t.stream)};
            simt::launch("attention_kernel", config, attention_kernel<T>, simt::global_tensor<const T, 3>(t.q),
                         simt::global_tensor<const T, 3>(t.k), simt::global_tensor<const T, 3>(t.v),
                         simt::global_tensor<float, 3>(t.o));
        }
    });
}

template <class T>
__global__ void __launch_bounds__(32)
    operand_kernel(simt::GlobalTensor<const T, 2> q, simt::GlobalTensor<const T, 2> k,
                   simt::GlobalTensor<float, 2> scores, simt::GlobalTensor<std::uint32_t, 2> operand) {
    using Row = simt::WideVector<T>;
    const int lane = int(threadIdx.x);
    simt::SharedArena arena;
    const auto Q_i = arena.tile<T, 16, 16, 24>("Q_i");
    const auto K_j = arena.tile<T, 16, 16, 24>("K_j");
    fill(Q_i, q);
    fill(K_j, k);
    __syncwarp();  // the tiles are complete before the warp reads them

    simt::FragmentA<T> query;
    simt::FragmentB<T> key[2];
    simt::ldmatrix(query, Q_i.template vec<Row>(lane % 16, lane / 16 * 8));
    simt::ldmatrix(key, K_j.template vec<Row>(lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8));
    simt::FragmentC S_ij[2]{};
    for (int n = 0; n < 2; ++n) simt::mma_m16n8k16(S_ij[n], query, key[n]);
    const simt::FragmentA<T> P_ij = simt::to_a<T>(S_ij[0], S_ij[1]);

    for (int n = 0; n < 2; ++n)
        for (int i = 0; i < 4; ++i) scores(lane, 4 * n + i) = S_ij[n].element[i];
    for (int i = 0; i < 4; ++i) operand(lane, i) = P_ij.registers[i];
}

void launch_operand(const OperandTrial& t) {
    with_element_type_of(MmaElements(), t.q.type, [&]<class T>(std::type_identity<T>) {
        const cudaLaunchConfig_t config{.gridDim = dim3(1),
                                        .blockDim = dim3(32),
                                        .dynamicSmemBytes = 2 * simt::shared_bytes<T>(16, 24),
                                        .stream = static_cast<cudaStream_t>(t.stream)};
        simt::launch("operand_kernel", config, operand_kernel<T>, simt::global_tensor<const T, 2>(t.q),
                     simt::global_tensor<const T, 2>(t.k), simt::global_tensor<float, 2>(t.scores),
                     simt::global_tensor<std::uint32_t, 2>(t.operand));
    });
}

/// The rows before those that the trial looks at: a stage begins anywhere at a multiple of 8.
inline constexpr int kRowsBefore = 8;

template <class T, class Rows, int D>
__global__ void __launch_bounds__(32)
    arranged_kernel(simt::GlobalTensor<const T, 2> elements, simt::GlobalTensor<std::uint32_t, 4> registers) {
    const int lane = int(threadIdx.x);
    simt::SharedArena arena;
    const auto whole = arena.tile<T, kRowsBefore + 32, D>("tile");
    const auto tile = arranged<Rows>(whole, kRowsBefore);
    for (int i = lane; i < 32 * D; i += 32) {
        const T element = elements(i / D, i % D);
        tile(i / D, i % D) = element;
    }
    __syncwarp();  // the tile is complete before the warp reads it

    for (int row = 0; row < 32; row += 16)
        for (int column = 0; column < D; column += 16) {
            simt::FragmentA<T> a;
            simt::FragmentB<T> of_columns[2], transposed[2];
            simt::ldmatrix(a, tile.block(row, column));
            simt::ldmatrix(of_columns, tile.block_of_columns(row, column));
            simt::ldmatrix_trans(transposed, tile.block(row, column));
            const int block = (row * D / 16 + column) / 16;
            for (int i = 0; i < 4; ++i) {
                registers(0, block, lane, i) = a.registers[i];
                registers(1, block, lane, i) = of_columns[i / 2].registers[i % 2];
                registers(2, block, lane, i) = transposed[i / 2].registers[i % 2];
            }
        }
}

void launch_arranged(const ArrangedTrial& t) {
    with_element_type_of(MmaElements(), t.tile.type, [&]<class T>(std::type_identity<T>) {
        with_mma_head_dim(t.tile.extents[1], [&]<int D>(std::integral_constant<int, D>) {
            const cudaLaunchConfig_t config{.gridDim = dim3(1),
                                            .blockDim = dim3(32),
                                            .dynamicSmemBytes = simt::shared_bytes<T>(kRowsBefore + 32, D),
                                            .stream = static_cast<cudaStream_t>(t.stream)};
            simt::launch("arranged_kernel", config,
                         t.swizzled ? arranged_kernel<T, SwizzledRows, D> : arranged_kernel<T, PlainRows, D>,
                         simt::global_tensor<const T, 2>(t.tile), simt::global_tensor<std::uint32_t, 4>(t.registers));
        });
    });
}

template <class T>
__global__ void pack_kernel(simt::GlobalTensor<const float, 2> in, simt::GlobalTensor<std::uint32_t, 1> out) {
    for (int i = int(threadIdx.x); i < int(in.extent(0)); i += int(blockDim.x))
        out(i) = simt::pack<T>(in(i, 0), in(i, 1));
}

void launch_pack(const PackTrial& t) {
    with_element_type(t.type, [&]<class T>(std::type_identity<T>) {
        if constexpr (sizeof(T) == 2) {
            const cudaLaunchConfig_t config{
                .gridDim = dim3(1), .blockDim = dim3(64), .stream = static_cast<cudaStream_t>(t.stream)};
            simt::launch("pack_kernel", config, pack_kernel<T>, simt::global_tensor<const float, 2>(t.in),
                         simt::global_tensor<std::uint32_t, 1>(t.out));
        }
    });
}

}  // namespace ladder::SIMT_MACHINE
