// Kernels that move tiles by TMA, for both machines.

#include "tests/simt/tma.h"

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

template <class T, simt::Swizzle S>
inline constexpr int kTmaColumns = tma_columns(S, sizeof(T));

template <int Rank>
struct TileCoordinates {
    int at[Rank];
};

template <int Rank>
__device__ __forceinline__ TileCoordinates<Rank> coordinates_of(const TmaPath& path, int j) {
    TileCoordinates<Rank> tile;
    for (int d = 0; d < Rank; ++d) tile.at[d] = path.first[d] + j * path.step[d];
    return tile;
}

/// One thread fills a ring of stages, three warps write what has come to `tiles`.
template <class T, int Rank, simt::Swizzle S>
__global__ void __launch_bounds__(kTmaThreads)
    tma_load_kernel(const __grid_constant__ simt::TensorMap<const T, Rank> map, TmaPath path, int stages,
                    simt::GlobalTensor<T, 3> tiles) {
    constexpr int R = kTmaRows, C = kTmaColumns<T, S>, consumers = kTmaThreads - 32;
    simt::SharedArena arena;
    const auto ring = arena.panels<T, kTmaStages * R, C, S>("ring");
    const auto full = arena.barriers<kTmaStages>("full"), empty = arena.barriers<kTmaStages>("empty");
    const int thread = int(threadIdx.x), count = int(tiles.extent(0));
    if (thread == 0) {
        simt::prefetch_map(map);
        for (int s = 0; s < stages; ++s) {
            full[s].init(1);
            empty[s].init(consumers);
        }
        simt::publish_barriers();
    }
    __syncthreads();

    int stage = 0;
    unsigned parity = 0;
    const auto next = [&] {
        if (++stage < stages) return;
        stage = 0;
        parity ^= 1;
    };
    if (thread == 0) {
        for (int j = 0; j < count; ++j, next()) {
            empty[stage].wait(parity ^ 1);
            full[stage].arrive_expecting(R * C * int(sizeof(T)));
            const auto tile = coordinates_of<Rank>(path, j);
            simt::tma_load(ring.template rows_from<R>(stage * R), map, tile.at, full[stage]);
        }
    } else if (thread >= 32) {
        for (int j = 0; j < count; ++j, next()) {
            full[stage].wait(parity);
            const auto tile = ring.template rows_from<R>(stage * R);
            for (int i = thread - 32; i < R * C; i += consumers) {
                const T element = tile(i / C, i % C);
                tiles(j, i / C, i % C) = element;
            }
            empty[stage].arrive();
        }
    }
}

/// Each block writes, or adds, all of `tiles` to the tensor, through two buffers in turn.
template <class T, int Rank, simt::Swizzle S, bool adds>
__global__ void __launch_bounds__(kTmaThreads) tma_store_kernel(const __grid_constant__ simt::TensorMap<T, Rank> map,
                                                                TmaPath path, simt::GlobalTensor<const T, 3> tiles) {
    constexpr int R = kTmaRows, C = kTmaColumns<T, S>;
    const auto buffers = simt::SharedArena().panels<T, 2 * R, C, S>("buffers");
    const int thread = int(threadIdx.x), count = int(tiles.extent(0));
    for (int j = 0; j < count; ++j) {
        if (thread == 0) simt::wait_stores_read<1>();  // the tile before the last has left this buffer
        __syncthreads();
        const auto buffer = buffers.template rows_from<R>(j % 2 * R);
        for (int i = thread; i < R * C; i += kTmaThreads) {
            const T element = tiles(j, i / C, i % C);
            buffer(i / C, i % C) = element;
        }
        simt::show_to_async();
        __syncthreads();  // all of the tile is written, and shown
        if (thread == 0) {
            const auto tile = coordinates_of<Rank>(path, j);
            if constexpr (adds)
                simt::tma_add(map, tile.at, buffer);
            else
                simt::tma_store(map, tile.at, buffer);
            simt::commit_stores();
        }
    }
    if (thread == 0) simt::wait_stores_read<0>();  // shared memory must live until then
}

template <class T, int Rank, simt::Swizzle S>
void launch_tma(const TmaTrial& t) {
    constexpr int C = kTmaColumns<T, S>, panel = simt::PanelLayout<sizeof(T), kTmaRows, C, S>::panel_columns;
    std::array<int, Rank> box, steps;
    for (int d = 0; d < Rank; ++d) {
        box[std::size_t(d)] = d + 1 < Rank ? t.box[std::size_t(d)] : panel;
        steps[std::size_t(d)] = t.steps[std::size_t(d)];
    }
    const bool loads = t.what == TmaTrial::What::load;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(unsigned(t.blocks));
    config.blockDim = dim3(kTmaThreads);
    config.dynamicSmemBytes = simt::panel_bytes<T>((loads ? kTmaStages : 2) * kTmaRows, C) + 2 * 16 * kTmaStages;
    config.stream = static_cast<cudaStream_t>(t.stream);
    const auto store = [&](auto kernel) {
        simt::launch("tma_store_kernel", config, kernel, simt::tensor_map<T, Rank>(t.tensor, box, S, steps), t.path,
                     simt::global_tensor<const T, 3>(t.tiles));
    };
    if (loads)
        simt::launch("tma_load_kernel", config, tma_load_kernel<T, Rank, S>,
                     simt::tensor_map<const T, Rank>(t.tensor, box, S, steps), t.path, t.stages,
                     simt::global_tensor<T, 3>(t.tiles));
    else if (t.what == TmaTrial::What::store)
        store(tma_store_kernel<T, Rank, S, false>);
    else
        store(tma_store_kernel<T, Rank, S, true>);
}

template <class T, int Rank>
void launch_tma(const TmaTrial& t) {
    if (t.swizzle == simt::Swizzle::none) launch_tma<T, Rank, simt::Swizzle::none>(t);
    if (t.swizzle == simt::Swizzle::b32) launch_tma<T, Rank, simt::Swizzle::b32>(t);
    if (t.swizzle == simt::Swizzle::b64) launch_tma<T, Rank, simt::Swizzle::b64>(t);
    if (t.swizzle == simt::Swizzle::b128) launch_tma<T, Rank, simt::Swizzle::b128>(t);
}

void launch_tma(const TmaTrial& t) {
    using simt::ElementType;
    if (t.tensor.type == ElementType::f32 && t.tensor.rank == 2) launch_tma<float, 2>(t);
    if (t.tensor.type == ElementType::f32 && t.tensor.rank == 3) launch_tma<float, 3>(t);
    if (t.tensor.type == ElementType::f16 && t.tensor.rank == 3) launch_tma<simt::f16, 3>(t);
    if (t.tensor.type == ElementType::f16 && t.tensor.rank == 4) launch_tma<simt::f16, 4>(t);
    if (t.tensor.type == ElementType::bf16 && t.tensor.rank == 2) launch_tma<simt::bf16, 2>(t);
}

/// x arrives in two pieces at one barrier; every thread doubles an element on the way to y.
__global__ void __launch_bounds__(kBulkElements)
    bulk_kernel(simt::GlobalTensor<const float, 1> x, simt::GlobalTensor<float, 1> y,
                simt::GlobalTensor<float, 1> sum) {
    constexpr int N = kBulkElements, half = N / 2;
    simt::SharedArena arena;
    const auto tile = arena.tile<float, 1, N>("tile");
    const auto full = arena.barriers<1>("full");
    const int thread = int(threadIdx.x);
    if (thread == 0) {
        full[0].init(1);
        simt::publish_barriers();
        full[0].arrive_expecting(N * int(sizeof(float)));
        simt::bulk_load(tile(0, half), x(0), half * int(sizeof(float)), full[0]);
        simt::bulk_load(tile(0, 0), x(half), half * int(sizeof(float)), full[0]);
    }
    __syncthreads();
    full[0].wait(0);
    const float doubled = 2.0f * tile(0, thread);
    tile(0, thread) = doubled;
    y(thread) = doubled;
    simt::show_to_async();
    __syncthreads();
    if (thread == 0) {
        simt::bulk_add(sum(0), tile(0, 0), N * int(sizeof(float)));
        simt::bulk_add(sum(half), tile(0, 0), half * int(sizeof(float)));
        simt::commit_stores();
        simt::wait_stores<0>();
    }
}

void launch_bulk(const BulkTrial& t) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(1);
    config.blockDim = dim3(kBulkElements);
    config.dynamicSmemBytes = simt::shared_bytes<float>(1, kBulkElements) + 16;
    config.stream = static_cast<cudaStream_t>(t.stream);
    simt::launch("bulk_kernel", config, bulk_kernel, simt::global_tensor<const float, 1>(t.x),
                 simt::global_tensor<float, 1>(t.y), simt::global_tensor<float, 1>(t.sum));
}

}  // namespace ladder::SIMT_MACHINE
