// The kernels that docs/hopper.md and docs/cpu_machine.md show of Hopper's instructions: a right one, and a wrong one
// for each diagnosis. The pages take their source from here, and each test holds what the machine says against the
// page.

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "common/simt/device/device.h"
#include "common/simt/device/device_profile.h"
#include "tests/simt/testing.h"

namespace simt::testing {
namespace {

/// S = Q K^T of 64 queries and 64 keys, whose columns come in `tiles` tiles of 64. Four warps multiply, a fifth
/// fetches.
template <int Stages>
__global__ void __launch_bounds__(160, 1)
    ring_scores_kernel(const __grid_constant__ TensorMap<const f16, 2> Q_map,
                       const __grid_constant__ TensorMap<const f16, 2> K_map, GlobalTensor<float, 2> S, int tiles) {
    SharedArena arena;
    const auto Q_ring = arena.panels<f16, 64 * Stages, 64, Swizzle::b128>("Q");
    const auto K_ring = arena.panels<f16, 64 * Stages, 64, Swizzle::b128>("K");
    const auto full = arena.barriers<Stages>("full"), empty = arena.barriers<Stages>("empty");
    if (threadIdx.x == 0) {
        for (int s = 0; s < Stages; ++s) {
            full[s].init(1);   // the producer arrives, and bytes come
            empty[s].init(4);  // one lane of each consumer warp arrives
        }
        publish_barriers();
    }
    __syncthreads();  // the barriers exist before anyone uses one

    RingPosition<Stages> at;
    if (threadIdx.x >= 128) {  // the producer: one lane of the fifth warp
        if (elect_one())
            for (int j = 0; j < tiles; ++j, at.next()) {
                empty[at.stage].wait(at.parity ^ 1);  // the stage's last readers are done with it
                full[at.stage].arrive_expecting(2 * 64 * 64 * 2);
                tma_load(Q_ring.template rows_from<64>(64 * at.stage), Q_map, {0, 64 * j}, full[at.stage]);
                tma_load(K_ring.template rows_from<64>(64 * at.stage), K_map, {0, 64 * j}, full[at.stage]);
            }
        return;
    }

    Accumulator<64> S_ij;  // the consumers: one warpgroup
    for (int j = 0; j < tiles; ++j, at.next()) {
        const auto Q_j = Q_ring.template rows_from<64>(64 * at.stage);
        const auto K_j = K_ring.template rows_from<64>(64 * at.stage);
        full[at.stage].wait(at.parity);  // both tiles are there
        begin_products(S_ij);
#pragma unroll
        for (int k = 0; k < 64; k += 16) multiply(S_ij, k_major(Q_j, 0, k), k_major(K_j, 0, k), j + k > 0);
        commit_products();
        wait_products<0>(S_ij);                     // the tensor cores have read the tiles
        if (elect_one()) empty[at.stage].arrive();  // so they may be overwritten
    }
    const int thread = int(threadIdx.x);
#pragma unroll
    for (int i = 0; i < S_ij.size; ++i) S(S_ij.row(thread, i), S_ij.column(thread, i)) = S_ij[i];
}

/// y = 2 x, a block for each 64 x 64 elements.
__global__ void __launch_bounds__(128) twice_kernel(const __grid_constant__ TensorMap<const f16, 2> x_map,
                                                    const __grid_constant__ TensorMap<f16, 2> y_map) {
    SharedArena arena;
    const auto tile = arena.panels<f16, 64, 64, Swizzle::b128>("tile");
    const auto full = arena.barriers<1>("full");
    if (threadIdx.x == 0) {
        full[0].init(1);
        publish_barriers();
    }
    __syncthreads();  // the barrier exists before anyone waits at it

    const int row = 64 * int(blockIdx.y), column = 64 * int(blockIdx.x);
    if (threadIdx.x == 0) {
        full[0].arrive_expecting(64 * 64 * 2);
        tma_load(tile, x_map, {row, column}, full[0]);
    }
    full[0].wait(0);

    for (int i = int(threadIdx.x); i < 64 * 64; i += 128) {
        const f16 x = tile(i / 64, i % 64);
        tile(i / 64, i % 64) = f16(2.0f * float(x));
    }
    show_to_async();
    __syncthreads();  // all threads have stored, and shown what they stored
    if (threadIdx.x == 0) {
        tma_store(y_map, {row, column}, tile);
        commit_stores();
        wait_stores_read<0>();  // a block's shared memory must last until the store has read it
    }
}

/// Two warpgroups count in turns.
__global__ void __launch_bounds__(256) turns_kernel(GlobalTensor<float, 1> y, int rounds) {
    const auto count = SharedArena().tile<float, 1, 4>("count");
    if (threadIdx.x == 0) count(0, 0) = 0.0f;
    __syncthreads();
    const int me = int(threadIdx.x) / 128, other = 1 - me;
    if (me == 1) arrive_threads(1, 256);  // the first turn is warpgroup 0's
    for (int i = 0; i < rounds; ++i) {
        sync_threads(1 + me, 256);  // until it is this warpgroup's turn
        if (threadIdx.x % 128 == 0) count(0, 0) += 1.0f;
        arrive_threads(1 + other, 256);  // now it is the other's
    }
    if (me == 0) sync_threads(1, 256);  // the last turn, which nobody takes
    if (threadIdx.x == 0) y(0) = float(count(0, 0));
}

/// A tile is brought, and its first element read.
__global__ void other_parity(const __grid_constant__ TensorMap<const f16, 2> K_map, GlobalTensor<float, 1> y) {
    SharedArena arena;
    const auto K_j = arena.panels<f16, 64, 64, Swizzle::b128>("K_j");
    const auto full = arena.barriers<1>("full");
    full[0].init(1);
    publish_barriers();
    full[0].arrive_expecting(64 * 64 * 2);
    tma_load(K_j, K_map, {0, 0}, full[0]);
    full[0].wait(1);
    y(0) = float(f16(K_j(0, 0)));
}

/// A warp has a tile brought.
__global__ void all_arrive(const __grid_constant__ TensorMap<const f16, 2> K_map) {
    SharedArena arena;
    const auto K_j = arena.panels<f16, 64, 64, Swizzle::b128>("K_j");
    const auto full = arena.barriers<1>("full");
    if (threadIdx.x == 0) {
        full[0].init(1);
        publish_barriers();
    }
    __syncthreads();
    full[0].arrive_expecting(64 * 64 * 2);
    if (threadIdx.x == 0) tma_load(K_j, K_map, {0, 0}, full[0]);
    full[0].wait(0);
}

/// Both announce half of what comes.
__global__ void half_the_bytes(const __grid_constant__ TensorMap<const f16, 2> K_map) {
    SharedArena arena;
    const auto K_j = arena.panels<f16, 64, 128, Swizzle::b128>("K_j");
    const auto full = arena.barriers<1>("full");
    full[0].init(1);
    publish_barriers();
    full[0].arrive_expecting(64 * 64 * 2);
    tma_load(K_j, K_map, {0, 0}, full[0]);
    full[0].wait(0);
}

/// A tile that the map does not fit.
__global__ void another_swizzle(const __grid_constant__ TensorMap<const f16, 2> plain_map) {
    SharedArena arena;
    const auto K_j = arena.panels<f16, 64, 64, Swizzle::b128>("K_j");
    const auto full = arena.barriers<1>("full");
    full[0].init(1);
    publish_barriers();
    full[0].arrive_expecting(64 * 64 * 2);
    tma_load(K_j, plain_map, {0, 0}, full[0]);
    full[0].wait(0);
}

/// A warpgroup writes ones to a tile.
template <class Tile>
__device__ void fill_with_ones(const Tile& tile) {
    for (int row = int(threadIdx.x) / 64; row < 64; row += 2) tile(row, int(threadIdx.x) % 64) = f16(1.0f);
}

/// Ones times ones.
__global__ void not_shown() {
    const auto K_j = SharedArena().panels<f16, 64, 64, Swizzle::b128>("K_j");
    fill_with_ones(K_j);
    __syncthreads();
    Accumulator<64> S;
    begin_products(S);
    multiply(S, k_major(K_j, 0, 0), k_major(K_j, 0, 0), false);
    commit_products();
    wait_products<0>(S);
}

__global__ void read_at_once(GlobalTensor<float, 1> y) {
    const auto K_j = SharedArena().panels<f16, 64, 64, Swizzle::b128>("K_j");
    fill_with_ones(K_j);
    show_to_async();
    __syncthreads();
    Accumulator<64> S;
    begin_products(S);
    multiply(S, k_major(K_j, 0, 0), k_major(K_j, 0, 0), false);
    commit_products();
    if (threadIdx.x == 0) y(0) = S[0];
    wait_products<0>(S);
}

__global__ void not_begun() {
    const auto K_j = SharedArena().panels<f16, 64, 64, Swizzle::b128>("K_j");
    fill_with_ones(K_j);
    show_to_async();
    __syncthreads();
    Accumulator<64> S;
    multiply(S, k_major(K_j, 0, 0), k_major(K_j, 0, 0), false);
    commit_products();
    wait_products<0>(S);
}

__global__ void not_committed() {
    const auto K_j = SharedArena().panels<f16, 64, 64, Swizzle::b128>("K_j");
    fill_with_ones(K_j);
    show_to_async();
    __syncthreads();
    Accumulator<64> S;
    begin_products(S);
    multiply(S, k_major(K_j, 0, 0), k_major(K_j, 0, 0), false);
    wait_products<0>(S);
}

/// One warpgroup of three gives back registers, and the others take what they need.
template <int Claimed>
__global__ void __launch_bounds__(384, 1) hand_over() {
    if (threadIdx.x < 128)
        release_registers<24>();
    else
        claim_registers<Claimed>();
}

/// The sums of the columns of K, which come in `tiles` tiles of 64, by two blocks: each fetches half of every tile, for
/// both, and adds up all of it.
__global__ void __launch_bounds__(96)
    shared_tiles_kernel(const __grid_constant__ TensorMap<const f16, 2> K_map, GlobalTensor<float, 2> sums, int tiles) {
    SharedArena arena;
    const auto K_ring = arena.panels<f16, 2 * 64, 64, Swizzle::b128>("K");
    const auto full = arena.barriers<2>("full"), empty = arena.barriers<2>("empty");
    const int rank = cluster_rank(), column = int(threadIdx.x) - 32;
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2; ++s) {
            full[s].init(1);
            empty[s].init(2 * 64);  // the readers of both blocks
        }
        publish_barriers();
    }
    cluster_sync();  // the barriers of both blocks exist
    RingPosition<2> at;
    for (int j = 0; j < tiles; ++j, at.next()) {
        if (threadIdx.x == 0) {
            const auto half = K_ring.rows_from<32>(64 * at.stage + 32 * rank);
            empty[at.stage].wait_in_cluster(at.parity ^ 1);  // in both blocks its readers are done
            full[at.stage].arrive_expecting(64 * 64 * 2);    // both halves
            tma_load_for_cluster(half, K_map, {32 * rank, 64 * j}, full[at.stage], 0b11);
        } else if (column >= 0) {
            full[at.stage].wait(at.parity);
            float sum = 0.0f;
            for (int r = 0; r < 64; ++r) sum += float(K_ring(64 * at.stage + r, column));
            sums(rank, 64 * j + column) = sum;
            for (int b = 0; b < 2; ++b) in_block(empty[at.stage], b).arrive();
        }
    }
    cluster_sync();  // nobody ends while arrivals are on their way to it
}

/// y(0) = the number of block 1, and the other way round, so its author thinks.
__global__ void neighbour_at_once(GlobalTensor<float, 1> y) {
    const auto number = SharedArena().tile<float, 1, 1>("number");
    number(0, 0) = float(blockIdx.x);
    y(blockIdx.x) = in_block(number, cluster_rank() ^ 1)(0, 0);
}

/// Two warpgroups meet, so its author thinks.
__global__ void two_counts() {
    if (threadIdx.x < 128)
        sync_threads(1, 256);
    else
        sync_threads(1, 128);
}

std::string squeezed(const std::string& text) {
    std::istringstream words(text);
    std::string all;
    for (std::string word; words >> word;) all += (all.empty() ? "" : " ") + word;
    return all;
}

/// docs/`name`.md.
std::string page(const std::string& name) {
    std::ostringstream all;
    all << std::ifstream(LADDER_SOURCE_DIR "/docs/" + name + ".md").rdbuf();
    return squeezed(all.str());
}

template <class T>
TensorArgument argument(const char* name, T* data, std::int64_t rows, std::int64_t columns) {
    return {.name = name,
            .data = data,
            .type = ElementType::f16,
            .rank = 2,
            .extents = {rows, columns},
            .strides = {columns, 1}};
}

class HopperPage : public ::testing::Test {
  protected:
    template <class... Parameters, class... Arguments>
    std::optional<MachineError> fault_in(const char* name, const Shape& shape, void (*kernel)(Parameters...),
                                         const Arguments&... arguments) {
        try {
            cudaLaunchAttribute attribute = cluster_dimension(shape.cluster.x);
            cudaLaunchConfig_t config = config_of(shape);
            config.attrs = &attribute;
            config.numAttrs = shape.cluster.x > 0;
            launch(name, config, kernel, arguments...);
        } catch (const MachineError& error) {
            return error;
        }
        ADD_FAILURE() << "nothing was found wrong in " << name;
        return {};
    }

    /// docs/cpu_machine.md has the whole message in a block of its own.
    template <class... Parameters, class... Arguments>
    void expect_on_machine_page(Fault fault, const char* name, const Shape& shape, void (*kernel)(Parameters...),
                                const Arguments&... arguments) {
        const auto error = fault_in(name, shape, kernel, arguments...);
        if (!error) return;
        EXPECT_EQ(error->report().fault, fault);
        EXPECT_NE(page("cpu_machine").find("``` " + squeezed(error->what()) + " ```"), std::string::npos)
            << "docs/cpu_machine.md does not show:\n"
            << error->what();
    }

    /// docs/hopper.md has the message's words, and leaves out threads' lines.
    template <class... Parameters, class... Arguments>
    void expect_on_hopper_page(Fault fault, const char* name, const Shape& shape, void (*kernel)(Parameters...),
                               const Arguments&... arguments) {
        const auto error = fault_in(name, shape, kernel, arguments...);
        if (!error) return;
        EXPECT_EQ(error->report().fault, fault);
        const std::string head = std::string(name_of(fault)) + " in " + name + ", block (0, 0, 0) ";
        EXPECT_NE(page("hopper").find("``` " + head + squeezed(error->report().what)), std::string::npos)
            << "docs/hopper.md does not show:\n"
            << error->what();
    }

    const TensorArgument of_keys(int columns) { return argument("K", keys_.base, 64, columns); }
    TensorMap<const f16, 2> map(int columns = 64) {
        return tile_map<const f16, 2, 64, 64, Swizzle::b128>(of_keys(columns));
    }

    static constexpr std::size_t kTile = panel_bytes<f16>(64, 64);
    Buffer<f16> keys_{"K", {64, 128}};
    Buffer<float> y_{"y", {384}};

  private:
    const ScopedCpuDevice hopper_{device_from(device_profile("h100"))};
};

TEST_F(HopperPage, TheKernelMultiplies) {
    constexpr int columns = 96;  // one tile and a half
    Buffer<f16> q("Q", {64, columns});
    Buffer<float> s("S", {64, 64});
    for (int i = 0; i < 64 * columns; ++i) {
        q.base[i] = f16(float(i % 7 - 3));
        keys_.base[i] = f16(float(i % 5 - 2));
    }
    const auto Q_map = tile_map<const f16, 2, 64, 64, Swizzle::b128>(argument("Q", q.base, 64, columns));
    const auto check = [&](auto stages) {
        launch("ring_scores_kernel", config_of({.block = 160, .shared_bytes = 2 * stages * kTile + 64}),
               ring_scores_kernel<stages>, Q_map, map(columns), s.view<2>(), 2);
        for (int i = 0; i < 64; ++i)
            for (int j = 0; j < 64; ++j) {
                float sum = 0;
                for (int k = 0; k < columns; ++k)
                    sum += float(q.base[i * columns + k]) * float(keys_.base[j * columns + k]);
                ASSERT_EQ(s.base[i * 64 + j], sum) << i << ", " << j;
            }
    };
    check(std::integral_constant<int, 2>());
    check(std::integral_constant<int, 1>());  // a stage is filled again
}

TEST_F(HopperPage, TheTileGoesThereAndBack) {
    constexpr int rows = 100, columns = 72;  // the last boxes lie partly outside
    Buffer<f16> x("x", {rows, columns}), y("y", {rows, columns});
    for (int i = 0; i < rows * columns; ++i) x.base[i] = f16(float(i % 1000));
    const auto x_map = tile_map<const f16, 2, 64, 64, Swizzle::b128>(argument("x", x.base, rows, columns));
    const auto y_map = tile_map<f16, 2, 64, 64, Swizzle::b128>(argument("y", y.base, rows, columns));
    launch("twice_kernel", config_of({.grid = dim3(2, 2), .block = 128, .shared_bytes = kTile + 16}), twice_kernel,
           x_map, y_map);
    for (int i = 0; i < rows * columns; ++i) ASSERT_EQ(float(y.base[i]), float(2 * (i % 1000))) << i;
}

TEST_F(HopperPage, TheTurnsAreTaken) {
    launch("turns_kernel", config_of({.block = 256, .shared_bytes = 16}), turns_kernel, y_.view<1>(), 5);
    EXPECT_EQ(y_.base[0], 10.0f);
}

TEST_F(HopperPage, TwoBlocksShareTiles) {
    constexpr int columns = 128;
    for (int i = 0; i < 64 * columns; ++i) keys_.base[i] = f16(float(i % 5 - 2));
    Buffer<float> sums("sums", {2, columns});
    cudaLaunchAttribute attribute = cluster_dimension(2);
    cudaLaunchConfig_t config = config_of({.grid = 2, .block = 96, .shared_bytes = 2 * kTile + 64});
    config.attrs = &attribute;
    config.numAttrs = 1;
    launch("shared_tiles_kernel", config, shared_tiles_kernel,
           tile_map<const f16, 2, 32, 64, Swizzle::b128>(of_keys(columns)), sums.view<2>(), columns / 64);
    for (int b = 0; b < 2; ++b)
        for (int c = 0; c < columns; ++c) {
            float sum = 0;
            for (int r = 0; r < 64; ++r) sum += float(keys_.base[r * columns + c]);
            ASSERT_EQ(sums.base[b * columns + c], sum) << b << ", " << c;
        }
}

TEST_F(HopperPage, Neighbours) {
    const Shape pair{.grid = 2, .block = 1, .shared_bytes = 16, .cluster = 2};
    expect_on_machine_page(Fault::cluster_misuse, "neighbour_at_once", pair, neighbour_at_once, y_.view<1>());
    expect_on_hopper_page(Fault::cluster_misuse, "neighbour_at_once", pair, neighbour_at_once, y_.view<1>());
}

TEST_F(HopperPage, CopiesAndBarriers) {
    const Shape one{.block = 1, .shared_bytes = kTile + 16}, warp{.block = 32, .shared_bytes = kTile + 16};
    expect_on_hopper_page(Fault::copy_in_flight, "other_parity", one, other_parity, map(), y_.view<1>());
    expect_on_machine_page(Fault::barrier_misuse, "all_arrive", warp, all_arrive, map());
    expect_on_hopper_page(Fault::barrier_misuse, "half_the_bytes", {.block = 1, .shared_bytes = 2 * kTile + 16},
                          half_the_bytes, map(128));
    expect_on_machine_page(Fault::bad_descriptor, "another_swizzle", one, another_swizzle,
                           tensor_map<const f16, 2>(of_keys(64), {64, 64}, Swizzle::none));
}

TEST_F(HopperPage, Products) {
    const Shape warpgroup{.block = 128, .shared_bytes = kTile};
    expect_on_machine_page(Fault::unseen_by_agent, "not_shown", warpgroup, not_shown);
    expect_on_hopper_page(Fault::unseen_by_agent, "not_shown", warpgroup, not_shown);
    expect_on_machine_page(Fault::product_in_flight, "read_at_once", warpgroup, read_at_once, y_.view<1>());
    expect_on_hopper_page(Fault::product_in_flight, "read_at_once", warpgroup, read_at_once, y_.view<1>());
    expect_on_machine_page(Fault::unready_registers, "not_begun", warpgroup, not_begun);
    expect_on_machine_page(Fault::product_not_awaited, "not_committed", warpgroup, not_committed);
}

TEST_F(HopperPage, RegistersAndTurns) {
    expect_on_machine_page(Fault::bad_registers, "hand_over", {.block = 384}, hand_over<160>);
    expect_on_hopper_page(Fault::deadlock, "hand_over", {.block = 384}, hand_over<248>);
    expect_on_hopper_page(Fault::barrier_misuse, "two_counts", {.block = 256}, two_counts);
}

TEST_F(HopperPage, ATensorMapThatBreaksARule) {
    try {
        (void)tile_map<const f16, 2, 64, 32, Swizzle::b64>(argument("K", keys_.base, 64, 50));
        ADD_FAILURE() << "the map was made";
    } catch (const std::invalid_argument& error) {
        EXPECT_NE(page("hopper").find("``` " + squeezed(error.what()) + " ```"), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace simt::testing
