#include <fmt/format.h>

#include <cmath>

#include "common/rung/measure.h"
#include "common/rung/question.h"
#include "phase3_fa2/fa2.h"

namespace ladder::phase3_fa2 {

using namespace quiz;

namespace {

// The tiles of fa2.cuh for D = 64, as the chapter has them; each question's formula holds them against a run.
constexpr std::int64_t kB_r = 64, kB_c = 32, kD = 64;

std::int64_t tiles(std::int64_t length, std::int64_t tile) { return (length + tile - 1) / tile; }

Question blocks(Draw& draw) {
    const std::int64_t H = draw({2, 3}), N = draw({130, 200, 300});
    const Measured run = measure(3, "fa2_forward", {.heads = H, .keys = N});
    Question q{
        .situation = fmt::format("fa2_forward on one sequence of {} tokens with {} heads, D = 64, float32: B_r = 64, "
                                 "B_c = 32.",
                                 N, H),
        .ask = "How many blocks does it launch?",
        .hint = "The outer loop of this order has become an axis of the grid. Which tiles does it loop over?",
        .tolerance = 0,
        .source = run.source,
        .command = run.command,
        .section = "The idea",
        .formula = double(H * tiles(N, kB_r))};
    q.right(count(run.blocks(), "block"),
            fmt::format("ceil({} / 64) = {} tiles of queries for each of {} heads.", N, tiles(N, kB_r), H));
    q.wrong(count(H, "block"),
            "One block per head is FlashAttention-1, where blocks would have to share O. Here each block "
            "owns its rows for good.");
    q.wrong(count(H * (N / kB_r), "block"),
            "The queries left over after full tiles of 64 need a block as well: round up.");
    q.wrong(count(H * tiles(N, kB_c), "block"),
            "That counts tiles of keys. They go by one after the other, within a "
            "block; the grid is made of tiles of queries.");
    return q;
}

Question keys_read(Draw& draw) {
    const std::int64_t H = draw({1, 2}), N = draw({192, 256});
    const Measured run = measure(3, "fa2_forward", {.heads = H, .keys = N});
    const std::uint64_t K = H * N * kD * sizeof(float);
    Question q{
        .situation = fmt::format("fa2_forward with B_r = 64 and B_c = 32: {} head{}, N = {}, D = 64, float32. K has "
                                 "{} bytes.",
                                 H, H == 1 ? "" : "s", N, K),
        .ask = "How many bytes of K do the blocks ask for?",
        .hint = "Each block keeps its queries, and needs every key.",
        .source = run.source,
        .command = run.command,
        .section = "What it moves",
        .formula = double(K * tiles(N, kB_r))};
    q.right(bytes(run.read("K")),
            fmt::format("All of K once for each of the {} tiles of queries. They run at the same time "
                        "and ask for the same keys, so a GPU's L2 serves most of it.",
                        tiles(N, kB_r)));
    q.wrong(bytes(K),
            "That is phase 2, where a tile of keys stays and the queries go by. Swapping the loops "
            "changes that.");
    q.wrong(bytes(K * tiles(N, kB_c)),
            "B_c, the keys in a tile, sets how often the barriers come. How often K is read "
            "depends on the tiles of queries.");
    q.wrong(bytes(K * N),
            "Each query does see every key, but the 64 queries of a tile share what the block has fetched.");
    return q;
}

Question output_moved(Draw& draw) {
    const std::int64_t N = draw({192, 256});
    const Measured phase2 = measure_before(3, {.heads = 1, .keys = N}, "gtx1080");
    const Measured run = measure(3, "fa2_forward", {.heads = 1, .keys = N}, "gtx1080");
    const std::uint64_t O = N * kD * sizeof(float), before = phase2.read("O") + phase2.written("O");
    Question q{
        .situation = fmt::format("One head, N = {}, D = 64, float32, on a GTX 1080. O has {} bytes. Phase 2 reads and "
                                 "writes {} bytes of it.",
                                 N, O, before),
        .ask = "How many bytes of O does phase 3 read and write?",
        .hint = "Where do O_i, m_i and l_i live while the keys go by?",
        .source = run.source,
        .command = run.command,
        .section = "What it moves",
        .formula = double(O)};
    q.right(bytes(run.read("O") + run.written("O")),
            "O_i stays in its block's registers from the first key to the last. It "
            "is written once, and never read.");
    q.wrong(bytes(before),
            "Those journeys came from the order of the loops: with the keys outside a row was not finished "
            "before the last tile. That is what has changed.");
    q.wrong(bytes(2 * O), "To be written it need not be read: a block starts its rows from zeros in registers.");
    q.wrong(bytes(O * tiles(N, kB_c)),
            "O_i is rescaled and added to at each of these tiles of keys, but in registers. "
            "None of that reaches global memory.");
    return q;
}

Question rescale(Draw& draw) {
    const double odds = draw({2, 3, 4});
    constexpr std::size_t B_c = 64;  // for D up to 32
    std::vector<double> scores(B_c, 0.0);
    scores.resize(2 * B_c, std::log(odds));
    const ScoredRow row(scores);
    Question q{
        .situation = fmt::format("A row meets two tiles of {} keys (the tile size for D up to 32). All scores of the "
                                 "first are 0, all of the second ln {}. FlashAttention-2 leaves O undivided.",
                                 B_c, odds),
        .ask = "By what factor is the old O multiplied when the second tile arrives?",
        .hint = "O is a sum of e^(s - m) v. What do all its terms lack when m grows?",
        .source = "fa2_forward on the CPU machine, as it showed its factor for the row",
        .command = "./ladder trace 3 --keys 128 --head-dim 32 --queries 1",
        .section = "The output may stay unscaled",
        .formula = 1 / odds};
    q.right(
        value(row.last("rescale", fa2_plain_forward)),
        fmt::format("alpha = e^(m - m_new) = e^(0 - ln {}). One multiplication for an element, no division until the "
                    "end. (The command plays a row of random scores: see rescale there.)",
                    odds));
    q.wrong(value(1 / (1 + odds)),
            "That is phase 2's factor, the share of the old keys in the new sum. It contains the "
            "division by l that this version puts off to the end.");
    q.wrong(value(odds), "The other way round: under a larger maximum every old term e^(s - m) is worth less.");
    q.wrong(value(1),
            "It would be 1 if the maximum had not moved. It moved, and all old terms were taken relative to the "
            "old one.");
    return q;
}

Question barriers(Draw& draw) {
    const std::int64_t N = draw({160, 256}), H = draw({1, 2});
    const Measured run = measure(3, "fa2_forward", {.heads = H, .keys = N});
    const std::int64_t blocks = H * tiles(N, kB_r), steps = tiles(N, kB_c);
    Question q{
        .situation = fmt::format("fa2_forward with B_r = 64, B_c = 32 and four warps per block: {} head{}, N = {}, D = "
                                 "64, float32.",
                                 H, H == 1 ? "" : "s", N),
        .ask = "How many __syncthreads() do all blocks complete, together?",
        .hint = "Which two hazards does a step of the loop have to close for a tile in shared memory?",
        .tolerance = 0,
        .source = run.source,
        .command = run.command,
        .section = "The kernel, from top to bottom",
        .formula = double(2 * blocks * steps)};
    q.right(count(run.barriers(), "barrier"),
            fmt::format(
                "Two per step: before the copy, so that nobody overwrites what another still reads, and after it, so "
                "that nobody reads too early. {} blocks of {} steps.",
                blocks, steps));
    q.wrong(count(blocks * steps, "barrier"),
            "One per step is not enough. Without the first, a fast warp overwrites the V_j "
            "that a slow one still multiplies with.");
    q.wrong(count(2 * steps, "barrier"),
            "That is one block's. A barrier holds up its own block, and each block has its own.");
    q.wrong(count(4 * 2 * blocks * steps, "barrier"),
            "All four warps meet at the same barrier; it is counted once for the "
            "block. (What separates P_ij from its readers is a __syncwarp().)");
    q.wrong(count(3 * blocks * steps, "barrier"),
            "A third would come between P_ij and P_ij V_j. There only lanes of one "
            "warp have to wait for each other: a __syncwarp().");
    return q;
}

Question residents(Draw& draw) {
    const char* const device = draw({"rtx4090", "a100", "t4"});
    const Measured run = measure(3, "fa2_forward", {.heads = 1, .keys = 64}, device);
    const simt::Occupancy& o = *run.launch().occupancy;
    const simt::DeviceProfile& limits = simt::device_profile(device);
    const std::size_t shared = run.launch().launch.shared_bytes_per_block;
    Question q{
        .situation = fmt::format("A block of fa2_forward (D = 64, float32) has 128 threads and {} bytes of shared "
                                 "memory. A multiprocessor of {} has {} bytes for all blocks, room for {} threads "
                                 "and {} blocks.",
                                 shared, limits.product, limits.shared_bytes_per_multiprocessor,
                                 limits.max_threads_per_multiprocessor, limits.max_blocks_per_multiprocessor),
        .ask = "How many blocks live on a multiprocessor at a time?",
        .hint = "Work out what each resource would allow, and take the least.",
        .source = run.source,
        .command = run.command,
        .section = "Where it still hurts",
        .formula = double(limits.shared_bytes_per_multiprocessor /
                          (shared + std::size_t(limits.reserved_shared_bytes_per_block)))};
    const int reserved = limits.reserved_shared_bytes_per_block;
    q.right(count(std::uint64_t(o.resident_blocks), "block"),
            fmt::format("Shared memory runs out first: {} / {}{}. While a block waits for its copies, {}.",
                        limits.shared_bytes_per_multiprocessor,
                        reserved ? fmt::format("({} + {})", shared, reserved) : std::to_string(shared),
                        reserved ? ", with what CUDA keeps for itself" : "",
                        o.resident_blocks == 1 ? "nobody computes" : "only the others can compute"));
    q.wrong(count(std::uint64_t(o.blocks_by_threads), "block"),
            "That many would fit by their threads. But each brings tiles of Q, K, V and P, and shared memory has room "
            "for fewer.");
    q.wrong(count(std::uint64_t(o.blocks_by_slots), "block"),
            "That is the hardware's limit on blocks of any kind. These are "
            "not small ones.");
    q.wrong(count(std::uint64_t(o.resident_blocks) * 4, "block"),
            "Four warps make a block; that many warps live there, not "
            "blocks.");
    return q;
}

Question more_or_less(Draw& draw) {
    const char* const device = draw({"gtx1080", "t4"});
    const std::int64_t N = draw({384, 512});
    const Measured phase2 = measure_before(3, {.heads = 1, .keys = N}, device),
                   run = measure(3, "fa2_forward", {.heads = 1, .keys = N}, device);
    const double ratio = double(run.traffic()) / double(phase2.traffic());
    Question q{
        .situation = fmt::format("One head, N = {}, D = 64, float32, on {}. Phase 2 takes tiles as large as the shared "
                                 "memory allows and moves {} bytes. Phase 3 has B_r = 64.",
                                 N, simt::device_profile(device).product, phase2.traffic()),
        .ask = "How many bytes does phase 3 move, compared to that?",
        .hint = "Phase 2 moves about 3 N^2 d / B_c elements, phase 3 about 2 N^2 d / B_r.",
        .source = run.source,
        .command = run.command,
        .section = "What it moves",
        .formula = double(run.traffic_by_formula()) / double(phase2.traffic_by_formula())};
    q.right(
        times(ratio),
        fmt::format("{} bytes: 2 / 64 is less than 3 / {}. With tiles of more than 96 keys phase 2 would move less. "
                    "Phase 3 is faster all the same: it has {} blocks instead of 1, and O in registers.",
                    run.traffic(), phase2.tile("B_c"), run.blocks()));
    q.wrong(times(1 / ratio), "The other way round: compare 3 / B_c and 2 / B_r.");
    q.wrong(times(1),
            "Both are Θ(N^2 d^2 / M), but a Θ hides the constants and the tiles. Only where 3 / B_c is 2 / B_r, with "
            "tiles of 96 keys, do they move as much.");
    q.wrong(times(double(tiles(N, kB_r))),
            "K and V are read that often, and phase 2 reads them once. But in phase 2 it was "
            "Q and O that came again and again.");
    return q;
}

}  // namespace

std::vector<Topic> questions() {
    return {{"3.blocks", "how many blocks FlashAttention-2 launches", blocks},
            {"3.keys-read", "how many bytes of K it asks for", keys_read},
            {"3.output-moved", "what happens to the journeys of O", output_moved},
            {"3.rescale", "what the old O is multiplied by", rescale},
            {"3.barriers", "how many barriers it takes", barriers},
            {"3.residents", "how many blocks a multiprocessor holds", residents},
            {"3.more-or-less", "whether it moves fewer bytes than FlashAttention-1", more_or_less}};
}

}  // namespace ladder::phase3_fa2
