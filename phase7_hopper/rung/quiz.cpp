#include <fmt/format.h>

#include <string>
#include <vector>

#include "common/attention/key_tiles.cuh"
#include "common/rung/measure.h"
#include "common/rung/question.h"
#include "common/simt/device/occupancy.h"
#include "common/simt/matrix/warpgroup.h"
#include "common/simt/report/launch_log.h"
#include "common/simt/simt.h"
#include "common/torch/torch.h"
#include "phase7_hopper/hopper.h"
#include "phase7_hopper/rung/quiz_8_bits.h"

namespace ladder::phase7_hopper {

using namespace quiz;

namespace {

// The chapter's numbers. Each question's formula holds them against a run, or against the code that it asks about.
constexpr const char* kDevice = "h100";
constexpr std::int64_t kRows = 64;         // of a warpgroup
constexpr std::int64_t kLessonKeys = 128;  // of a tile of hopper.cuh, up to D = 128
constexpr std::int64_t kRegisters = 65536, kGroup = 128;

/// The least multiple of `step` that is not below `x`.
constexpr std::int64_t up_to(std::int64_t x, std::int64_t step) { return (x + step - 1) / step * step; }

/// Passes in which the lesson's kernel reads shared memory, for one tile of 64 queries and so many keys.
std::uint64_t read_passes(std::int64_t keys, std::int64_t D) {
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile(kDevice)));
    const simt::LaunchLog log;
    const torch::Tensor q = at::ones({1, 1, kRows, D}, torch::kFloat16), k = at::ones({1, 1, keys, D}, torch::kFloat16);
    hopper_plain_forward(q, k, k, {});
    return log.total().shared_read_wavefronts;
}

Question element(Draw& draw) {
    const int thread = draw({38, 77, 101}), i = draw({6, 15, 19});
    const auto place = [](int row, int column) { return words(fmt::format("row {}, column {}", row, column)); };
    const int row = simt::AccumulatorLayout::row(thread, i), column = simt::AccumulatorLayout::column(thread, i);
    const int warp = thread / 32, lane = thread % 32;
    Question q{.situation =
                   "A warpgroup has S_ij, 64 queries by 128 keys, in an accumulator. Each thread has 64 of its "
                   "elements, S[0] to S[63].",
               .ask = fmt::format("Which element is S[{}] of thread {}?", i, thread),
               .hint = "Which warp is it, which rows has a warp, and how do its lanes share eight columns?",
               .source = "simt::AccumulatorLayout, which the CPU machine multiplies by",
               .command = "sed -n '/^struct AccumulatorLayout/,/^};/p' common/simt/matrix/warpgroup.h",
               .section = "First: everything in order"};
    q.right(
        place(row, column),
        fmt::format("Warp {} begins at row {}, lane {} adds {} / 4 = {}, and every second pair of elements is eight "
                    "rows below. Four elements on are eight columns on.",
                    warp, 16 * warp, lane, lane, lane / 4));
    q.wrong(place(16 * warp + lane / 4, column), "S[2] and S[3], S[6] and S[7], … are of the thread's second row.");
    q.wrong(place(thread / 2, thread % 2 * 64 + i),
            "That would be right if two threads shared a row, half of its columns each. Four lanes share a row.");
    q.wrong(place(lane / 4 + i / 2 % 2 * 8, column),
            "That is right in the first warp. The four warps have 16 rows each, one after the other.");
    return q;
}

Question parity(Draw& draw) {
    constexpr int stages = 2;
    const int tile = draw({3, 4, 6, 9});
    simt::RingPosition<stages> at;
    for (int n = 0; n < tile; ++n) at.next();
    const auto both = [](unsigned consumers, unsigned producer) {
        return words(fmt::format("consumers {}, producer {}", consumers, producer));
    };
    const unsigned other = at.parity ^ 1;
    Question q{
        .situation =
            "K_j comes in a ring of two stages. Tiles are counted from 0, in the order in which the "
            "producer asks for them.",
        .ask = fmt::format("For tile {}: with which parity do consumers wait at its full barrier, and the producer "
                           "at its empty one?",
                           tile),
        .hint = "How often has the stage been used before? The first use is phase 0 of its full barrier.",
        .source = "simt::RingPosition<2>, after as many steps",
        .command = "sed -n '/^struct RingPosition/,/^};/p' common/simt/sync/ring_position.h",
        .section = "The ring"};
    q.right(
        both(at.parity, other),
        fmt::format("Stage {}, used {} times before. Consumers wait for phase {} of full; the producer for the phase "
                    "before it of empty, whose parity is the other one.",
                    tile % stages, tile / stages, tile / stages));
    q.wrong(both(other, at.parity),
            "Exchanged. Consumers would pass before the tile is there, and the producer would wait for readers of a "
            "tile that it has not brought.");
    q.wrong(both(at.parity, at.parity),
            "The producer waits for the round before this one. With the consumers' parity it waits for this round's "
            "readers, who wait for it.");
    q.wrong(both(other, other),
            "The consumers' parity passes at once here: the round before is over, and the tile is on its way.");
    return q;
}

Question passes(Draw& draw) {
    const std::int64_t D = draw({64, 128});
    const std::uint64_t measured = read_passes(2 * kLessonKeys, D) - read_passes(kLessonKeys, D);
    const std::uint64_t Q = D / 16 * 16, K = D / 16 * kLessonKeys / 4, V = kLessonKeys / 16 * D / 4;
    Question q{
        .situation = fmt::format("hopper.cuh, D = {}: 64 queries, tiles of 128 keys, 16 bits. A wavefront "
                                 "brings 128 bytes from shared memory. Nothing conflicts.",
                                 D),
        .ask = "In how many wavefronts do the products of one tile read their operands?",
        .hint =
            "For each wgmma: 64 x 16 of A, if A is in shared memory, and 16 x N of B. How many wgmma has each "
            "of the two products?",
        .tolerance = 0,
        .source =
            "hopper_plain_forward on the CPU machine, with the limits of NVIDIA H100: what it read for "
            "another tile",
        .command = fmt::format("./ladder profile 7 --profile h100 --heads 1 --queries 64 --keys 256 --head-dim {} "
                               "--dtype f16 --no-causal",
                               D),
        .section = "What a step costs",
        .formula = double(Q + K + V)};
    q.right(
        count(measured, "wavefront"),
        fmt::format("S_ij: {} instructions of 16 wavefronts for Q_i and 32 for K_j. O_i: 8 instructions of {} for V_j; "
                    "P_ij is in registers.",
                    D / 16, D / 4));
    q.wrong(count(K + V, "wavefront"), "Q_i is read again for every tile: wgmma keeps nothing of its operands.");
    q.wrong(count(4 * (K + V) + Q, "wavefront"),
            "One warp's view. wgmma is one instruction of four warps, and reads B once for all of them.");
    q.wrong(count(Q + K + V + kLessonKeys, "wavefront"),
            "P_ij does not go through shared memory: each thread has the weights that its operand wants.");
    return q;
}

Question exponentials(Draw& draw) {
    const std::int64_t D = draw({64, 96, 128, 192, 256}), B_r = 128, B_c = 128;
    const double products = 2.0 * double(B_r * B_c * D) / 2048, exponentials = double(B_r * B_c) / 16;
    Question q{.situation = fmt::format("A multiprocessor does 2048 multiply-adds of 16 bits per cycle on its tensor "
                                        "cores, and 16 exponentials. Attention with D = {}.",
                                        D),
               .ask = "How long do the exponentials of a tile take, if its products take 1?",
               .hint = "A score is D multiply-adds in each of two products, and one exponential.",
               .tolerance = 0.02,
               .source = "cycles of 128 queries and 128 keys",
               .command = "sed -n '/^def exponentials/,/return/p' phase7_hopper/rung/figures.py",
               .section = "What a step costs",
               .formula = 64.0 / double(D)};
    q.right(value(exponentials / products),
            "2 D / 2048 cycles of products for a score, and 1 / 16 of its exponential: "
            "64 / D, whatever the tile.");
    q.wrong(value(2 * exponentials / products),
            "That forgets one of the products: each score costs D multiply-adds in "
            "S_ij, and D in O_i.");
    q.wrong(value(exponentials / products / 2),
            "2048 are multiply-adds, and 4096 floating point operations. Count one "
            "or the other on both sides.");
    q.wrong(value(1.0 / (2.0 * double(D))), "That is the ratio of their numbers. The two units are not equally fast.");
    return q;
}

Question shared_memory(Draw& draw) {
    const std::int64_t n = draw({1, 2, 3}), B_c = draw({80, 128, 160}), D = 128;
    const auto cycles = [&](std::int64_t of_queries, std::int64_t copies) {
        const std::int64_t reads = n * (D / 16 * (of_queries + B_c / 4) + B_c / 16 * D / 4);
        return double(reads + copies * D * B_c * 2 / 128);
    };
    const double products = double(n * D * B_c / 16);
    Question q{
        .situation = fmt::format("{} of 64 rows each, tiles of {} keys, both products by wgmma, P_ij in registers, "
                                 "K_j and V_j by TMA.",
                                 n == 1 ? "One warpgroup" : fmt::format("{} warpgroups", n), B_c),
        .ask = "For how long is shared memory busy in a step, if the products take 1?",
        .hint = "Q_i, K_j and V_j are read by each warpgroup. Who writes K_j and V_j, and how often?",
        .tolerance = 0.01,
        .source = "cycles by the sizes of each instruction's operands, D = 128",
        .command = "sed -n '/^def shared_memory/,/return/p' phase7_hopper/rung/figures.py",
        .section = "What a step costs",
        .formula = 16.0 / double(B_c) + double(n + 1) / double(2 * n)};
    q.right(value(cycles(16, 2) / products),
            "16 / B_c for Q_i, half for K_j and V_j as the products read them, and half "
            "of that divided by the warpgroups that share a tile as TMA writes it.");
    q.wrong(value(cycles(0, 2) / products), "That leaves Q_i out. Each wgmma of S_ij reads 64 x 16 of it again.");
    q.wrong(value(cycles(16, 0) / products), "That leaves the copies out. TMA's writes go to the same memory.");
    q.wrong(value(cycles(16, 2 * (n + 1)) / products),
            "That has every warpgroup fetch its own. A tile comes once for all of them.");
    return q;
}

Question registers(Draw& draw) {
    struct Case {
        std::int64_t consumers, kept;
    };
    const Case on = draw({Case{2, 24}, Case{2, 40}, Case{3, 32}, Case{3, 56}});
    const std::int64_t threads = kGroup * (on.consumers + 1), at_start = kRegisters / threads / 8 * 8;
    std::int64_t claim = 0;  // as long as it fits
    while (on.consumers * (claim + 8) + on.kept <= (on.consumers + 1) * at_start) claim += 8;
    Question q{.situation = fmt::format("A block of {} threads: a producer warpgroup and {} consumers, alone on its "
                                        "multiprocessor of 65536 registers. The producer keeps {} for each thread.",
                                        threads, on.consumers, on.kept),
               .ask = "How many can each thread of the consumers claim at most?",
               .hint =
                   "How many has a thread at the start? Registers come in multiples of 8, and nobody gets more than "
                   "others have released.",
               .tolerance = 0,
               .source = "the multiples of 8 that fit, one after the other",
               .command = "sed -n '/^struct HopperTurns/,/^};/p' phase7_hopper/hopper_turns.cuh",
               .section = "Registers and shared memory",
               .formula = double(((on.consumers + 1) * at_start - on.kept) / on.consumers / 8 * 8)};
    q.right(
        count(std::uint64_t(claim), "register"),
        fmt::format("{} at the start. {} · {} − {} = {}, divided by {} and rounded down to a multiple of 8.", at_start,
                    on.consumers + 1, at_start, on.kept, (on.consumers + 1) * at_start - on.kept, on.consumers));
    q.wrong(count(std::uint64_t(claim + 8), "register"),
            "That is more than there are. The last warpgroup to claim would wait for ever.");
    q.wrong(count(std::uint64_t(at_start), "register"),
            "That is what each has at the start. Claiming is about what the producer gave back.");
    q.wrong(count(std::uint64_t(2 * at_start - on.kept), "register"),
            on.consumers == 2 ? "That gives all that the producer released to one of the two consumers."
                              : "That gives all that the producer released to one of the three consumers.");
    return q;
}

Question shared_bytes(Draw& draw) {
    const std::int64_t D = draw({64, 128});
    const Measured run =
        measure(7, "hopper_turns_forward",
                {.heads = 1, .keys = 64, .head_dim = D, .dtype = torch::kFloat16, .causal = false}, kDevice);
    constexpr std::int64_t B_r = 128, B_c = 128, stages = 2;
    const std::uint64_t Q = B_r * D * 2, K = B_c * D * 2, rest = run.launch().launch.shared_bytes_per_block % 1024;
    Question q{
        .situation = fmt::format("hopper_turns.cuh, D = {}: 128 queries, 128 keys, 16 bits; {} bytes for barriers "
                                 "and flags.",
                                 D, rest),
        .ask = "How many bytes of shared memory does a block take?",
        .hint = "What has stages, and where do S_ij, P_ij and O_i lie?",
        .source = run.source,
        .command = run.command,
        .section = "Registers and shared memory",
        .formula = double(Q + 2 * stages * K + rest)};
    q.right(
        bytes(run.launch().launch.shared_bytes_per_block),
        "Q_i once, K_j and V_j in two stages each. O_i leaves through Q_i's place, when nobody needs Q_i any more.");
    q.wrong(bytes(Q + 2 * K + rest),
            "With one stage the producer could ask for nothing before the tile is free again.");
    q.wrong(bytes(2 * Q + 2 * stages * K + rest),
            "That would be right if O_i had a place of its own, as it must in a kernel that goes on to the next tile "
            "of queries.");
    q.wrong(bytes(2 * (Q + 2 * stages * K) + rest),
            "Both warpgroups share K_j and V_j, and Q_i has 64 rows for each of them: nothing is there twice.");
    return q;
}

Question resident_blocks(Draw& draw) {
    const std::int64_t D = draw({64, 128});
    const Measured run =
        measure(7, "hopper_plain_forward",
                {.heads = 1, .keys = 64, .head_dim = D, .dtype = torch::kFloat16, .causal = false}, kDevice);
    const simt::DeviceProfile& profile = simt::device_profile(kDevice);
    const simt::LaunchRecord& launch = run.launch().launch;
    const simt::Occupancy fit =
        simt::occupancy(profile, {.threads = int(launch.block[0]), .shared_bytes = launch.shared_bytes_per_block});
    const std::int64_t needed = (kRows + 2 * kLessonKeys) * D * 2;
    const std::int64_t all = profile.shared_bytes_per_multiprocessor;
    // What CUDA keeps of it, and pieces of 128 bytes.
    const std::int64_t of_a_block = up_to(needed + 16, 128) + profile.reserved_shared_bytes_per_block;
    Question q{
        .situation = fmt::format("hopper.cuh, D = {}: a block has 128 threads, Q_i of 64 rows, K_j and V_j of 128 "
                                 "rows, once each, and a barrier. A multiprocessor of {} has {} bytes of shared "
                                 "memory; CUDA keeps {} for each block.",
                                 D, profile.product, all, profile.reserved_shared_bytes_per_block),
        .ask = "How many blocks does its shared memory hold at a time?",
        .hint = "Add the three tiles, two bytes for each element, and divide.",
        .tolerance = 0,
        .source =
            "hopper_plain_forward on the CPU machine: the bytes that its launch asked for, by the rules of "
            "NVIDIA's occupancy calculator",
        .command = run.command,
        .section = "First: everything in order",
        .formula = double(all / of_a_block)};
    q.right(count(std::uint64_t(fit.blocks_by_shared_memory), "block"),
            fmt::format("{} / {}, rounded down.", all, of_a_block));
    q.wrong(count(1, "block"),
            "One is for the kernels with a producer, whose stages fill it. Here a second block is all "
            "the overlap there is.");
    q.wrong(count(std::uint64_t(all / (needed / 5 * 3)), "block"),
            "K_j and V_j have 128 rows each, and both are there at the same time.");
    q.wrong(count(std::uint64_t(fit.blocks_by_threads), "block"),
            "That many fit by their threads. Shared memory is scarcer.");
    return q;
}

Question keys_read(Draw& draw) {
    const std::int64_t N = draw({200, 384, 450}), D = 64;
    const Measured run =
        measure(7, "hopper_turns_forward",
                {.heads = 1, .keys = N, .head_dim = D, .dtype = torch::kBFloat16, .causal = false}, kDevice);
    const std::uint64_t row = D * 2, blocks = (N + 127) / 128, boxes = (N + 127) / 128 * 128;
    Question q{.situation = fmt::format(
                   "hopper_turns.cuh without a mask, one head of N = {} tokens, D = 64, bfloat16: blocks of "
                   "128 queries, tiles of 128 keys.",
                   N),
               .ask = "How many bytes of K are read from global memory?",
               .hint = "Who shares a tile? And what does TMA bring for rows that K does not have?",
               .source = run.source,
               .command = run.command,
               .section = "Second: a producer and two consumers",
               .formula = double(N * row * blocks)};
    q.right(bytes(run.read("K")),
            fmt::format("{} blocks read all {} rows of K once, for both warpgroups. Rows beyond the end are zeros that "
                        "come from nowhere, though their bytes count at the barrier.",
                        blocks, N));
    q.wrong(bytes(N * row * blocks * 2), "A tile comes once for a block, and both warpgroups multiply with it.");
    if (boxes != std::uint64_t(N))
        q.wrong(bytes(boxes * row * blocks),
                "That many bytes are announced at the barriers. Those beyond the end of K are "
                "zeros, and are not read.");
    else
        q.wrong(bytes(N * row), "Each block has shared memory of its own, and fetches all keys into it.");
    q.wrong(bytes(N * row * blocks * 8), "One lane asks for a tile, for all eight warps.");
    return q;
}

Question skipped(Draw& draw) {
    const int first = draw({192, 384, 768}), B_r = 192, B_c = 128, N = 2048;
    const auto tiles_of = [&](int first_query, int rows) {
        return ladder::cpu::key_tiles(Mask::causal_bottom_right, first_query, rows, B_c, N, N);
    };
    const int block = tiles_of(first, B_r).visited, own = tiles_of(first, int(kRows)).visited;
    Question q{
        .situation = fmt::format("hopper_parts.cuh under a causal mask, N = 2048: a block has queries {} to {}, 64 "
                                 "for each of three warpgroups, and tiles of 128 keys.",
                                 first, first + B_r - 1),
        .ask = "How many tiles does its first warpgroup multiply with?",
        .hint = "Query i sees keys 0 to i. Which is the last key that the warpgroup's last query sees?",
        .tolerance = 0,
        .source = "key_tiles() of common/attention/key_tiles.cuh, for the warpgroup's 64 rows",
        .command = "sed -n '/constexpr KeyTiles key_tiles/,/^}/p' common/attention/key_tiles.cuh",
        .section = "Fourth: three warpgroups, and weights in parts",
        .formula = double((first + kRows + B_c - 1) / B_c)};
    q.right(
        count(std::uint64_t(own), "tile"),
        fmt::format("Its last query is {}, which sees {} keys. The block visits {} tiles; the warpgroup waits for the "
                    "rest and releases them unread.",
                    first + kRows - 1, first + kRows, block));
    q.wrong(count(std::uint64_t(block), "tile"),
            "That many arrive, for the block's last queries. The first warpgroup sees nothing of the last of them.");
    q.wrong(count(std::uint64_t(N / B_c), "tile"),
            "Those are all tiles. The mask hides those after the block's last "
            "query, and the producer does not ask for them.");
    q.wrong(count(std::uint64_t(own + block), "tile"), "A tile is one step, not two: S_ij and O_i belong together.");
    return q;
}

Question last_wave(Draw& draw) {
    const std::int64_t heads = draw({16, 32, 64}), N = 8192, B_r = 192, B = draw({1, 2});
    const std::int64_t tiles = B * heads * ((N + B_r - 1) / B_r), sms = simt::device_profile(kDevice).multiprocessors;
    const double waves = double(tiles) / double(sms);
    std::int64_t rounds = 0;
    while (rounds * sms < tiles) ++rounds;
    Question q{
        .situation = fmt::format("hopper_parts.cuh without a mask, N = 8192, {} sequences of {} heads: tiles of 192 "
                                 "queries, one block on each of {} multiprocessors.",
                                 B, heads, sms),
        .ask = "What share of the multiprocessors' time is used at best, if every tile takes equally long?",
        .hint = "How many tiles are there, how many run at a time, and how many rounds is that?",
        .tolerance = 0.01,
        .source = "the tiles, in rounds of as many as there are multiprocessors",
        .command = "sed -n '/^struct HopperParts {/,/^};/p' phase7_hopper/hopper_parts.cuh",
        .section = "Where it still hurts",
        .formula = waves / double(up_to(tiles, sms) / sms)};
    q.right(value(waves / double(rounds)),
            fmt::format("{} tiles in rounds of {} are {:.4g} waves. The last one takes as long as a full one.", tiles,
                        sms, waves));
    q.wrong(value(waves - double(rounds - 1)), "That is how full the last wave is. The waves before it are full.");
    q.wrong(value(1.0 / double(rounds)), "That is a single wave's share of the time.");
    q.wrong(value(waves / double(rounds + 1)), "That counts one round too many. The partial wave is the last one.");
    return q;
}

Question stuck(Draw& draw) {
    struct Case {
        const char *report, *cause, *why;
    };
    static const Case cases[] = {
        {"thread 0 waits for phase 0 of K_j empty[0] (0 of 8 arrivals so far); threads 128 to 383 wait for phase 0 of "
         "Q_i "
         "full[0] (0 of 1 arrival so far)",
         "the producer waits at empty barriers with the consumers' parity",
         "Thread 0 is the producer, at its very first tile: nobody can have read it. With parity ^ 1 it would pass."},
        {"thread 0 waits for phase 0 of K_j empty[1] (0 of 8 arrivals so far); threads 128 to 255 wait for barrier 1 "
         "(128 of "
         "256 threads so far); threads 256 to 383 wait for barrier 2 (128 of 256 threads so far)",
         "nobody gives the first turn away",
         "Both consumers wait for their turn, and each needs 128 arrivals of the other: somebody must begin."},
        {"thread 0 waits for phase 0 of K_j empty[0] (0 of 8 arrivals so far); threads 128 to 383 wait for phase 0 of "
         "K_j "
         "full[0] (1 of 1 arrival, 8192 of 16384 bytes so far)",
         "the producer announces more bytes than the copy brings",
         "The arrival is there, and so are the bytes of the copy; the barrier was told to wait for twice as many."}};
    const int place = draw({0, 1, 2});
    Question q{
        .situation = fmt::format("The CPU machine reports a deadlock in a block with a producer, thread 0, and two "
                                 "consumer warpgroups: no thread can go on; {}.",
                                 cases[place].report),
        .ask = "What is the mistake?",
        .hint = "Which count is short, and who should have come?",
        .source = "reports of wrong kernels, tests/mutants/README.md",
        .command = "sed -n '/no_first_turn/,/^$/p' phase7_hopper/rung/mutants.toml",
        .section = "What can go wrong"};
    q.right(words(cases[place].cause), cases[place].why);
    static const char* const not_this[] = {
        "Then the producer would wait at the very first empty barrier, with nothing asked for and no bytes on their "
        "way.",
        "Then both consumers would wait at barriers 1 and 2, 128 of 256 threads each.",
        "Then a full barrier would have its arrival and lack bytes."};
    for (int other = 0; other < 3; ++other)
        if (other != place) q.wrong(words(cases[other].cause), not_this[other]);
    q.wrong(words("a consumer releases K_j before it has waited for its product"),
            "Nothing would stop: the tile would be overwritten while the tensor cores read it. That is a race.");
    return q;
}

Question proxy(Draw& draw) {
    struct Case {
        const char* what;
        bool needed;
        const char* why;
    };
    static const Case cases[] = {
        {"TMA has brought K_j, the threads have waited at its full barrier, and wgmma is to read it", false,
         "TMA and wgmma reach shared memory by the same path. The wait is enough."},
        {"the lanes of a warp have put O_i into shared memory with stmatrix, and TMA is to store it", true,
         "Threads wrote in the ordinary way. TMA reads by another path, and sees it only after the fence."},
        {"the threads have changed the sign of Q_i in shared memory, and wgmma is to read it", true,
         "Threads wrote in the ordinary way. The tensor cores read by another path, and see it only after the fence."}};
    const Case& on = cases[draw({0, 1, 2})];
    Question q{.situation = fmt::format("This happens: {}.", on.what),
               .ask = "What must lie between the two?",
               .hint = "Who wrote, and which of the two paths does the reader take?",
               .source = "what the CPU machine asks for: missing proxy fence",
               .command = "sed -n '/no_proxy_fence_before_the_store/,/^$/p' phase7_hopper/rung/mutants.toml",
               .section = "First: everything in order"};
    const char* const fence = "show_to_async() by every thread that wrote, then a barrier of them";
    const char* const nothing = "nothing more";
    q.right(words(on.needed ? fence : nothing), on.why);
    q.wrong(words(on.needed ? nothing : fence),
            on.needed ? "It would work most of the time on a GPU, and be wrong the other times."
                      : "It would be right, and cost a wait for all stores of each thread, of which there were none.");
    q.wrong(words("a barrier of the threads that wrote"),
            on.needed ? "A barrier orders threads. It does not show their stores to the asynchronous proxy."
                      : "No thread wrote. A thread that has waited at the full barrier has the tile.");
    q.wrong(words("show_to_async() by the one thread that starts the reader"),
            on.needed ? "It would show that thread's own stores, and not those of the others."
                      : "That thread has stored nothing.");
    return q;
}

Question waits(Draw& draw) {
    const int n = draw({0, 1});
    Question q{.situation =
                   "hopper_overlapped.cuh has asked for S_ij of a tile, and after it for O_i of the tile before, "
                   "each committed as a group of its own.",
               .ask = fmt::format("What may be touched after wait_products<{}>?", n),
               .hint =
                   "It waits for all groups except the newest ones, as many as its argument says. In which order were "
                   "they committed?",
               .source = "what the CPU machine lets pass: registers of a product under way",
               .command = "sed -n '/scores_too_early/,/^$/p' phase7_hopper/rung/mutants.toml",
               .section = "Third: the softmax under the warpgroup's own products"};
    const char* const choices[] = {"S_ij, O_i and the registers of P_ij", "S_ij alone", "O_i and P_ij alone",
                                   "nothing yet"};
    q.right(words(choices[n]),
            n == 0 ? "No group is left under way, so accumulators and operands are the threads' again."
                   : "The newest group is O_i's. It still reads P_ij, so the new weights must not go there.");
    q.wrong(words(choices[1 - n]), n == 0 ? "That is what wait_products<1> gives." : "That takes wait_products<0>.");
    q.wrong(words(choices[2]), "Groups end in the order in which they were committed: S_ij's is the older one.");
    q.wrong(words(choices[3]), "A wait returns only when those groups are done.");
    return q;
}

}  // namespace

std::vector<Topic> questions() {
    return {{"7.element", "which element a thread has", element},
            {"7.exponentials", "exponentials beside products", exponentials},
            {"7.passes", "what wgmma reads of shared memory", passes},
            {"7.shared-memory", "who shares a tile", shared_memory},
            {"7.resident-blocks", "how many blocks a multiprocessor holds", resident_blocks},
            {"7.parity", "parities of a ring", parity},
            {"7.registers", "what consumers can claim", registers},
            {"7.shared-bytes", "what a producer and two stages take", shared_bytes},
            {"7.keys-read", "how many bytes of K are read", keys_read},
            {"7.stuck", "who forgot to arrive", stuck},
            {"7.proxy", "when stores must be shown", proxy},
            {"7.waits", "what a wait makes readable", waits},
            {"7.skipped", "tiles that a warpgroup leaves out", skipped},
            {"7.last-wave", "how full the last wave is", last_wave},
            {"7.code", "what a number in 8 bits becomes", stored_number},
            {"7.rotation", "what a rotation does to an outlier", rotated_outlier},
            {"7.exponent", "which scale a block has", block_exponent}};
}

}  // namespace ladder::phase7_hopper
