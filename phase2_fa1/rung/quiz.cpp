#include "phase2_fa1/fa1.h"

#include <fmt/format.h>

#include <cmath>

#include "common/rung/measure.h"
#include "common/rung/question.h"

namespace ladder::phase2_fa1 {

using namespace quiz;

namespace {

/// fa1_forward on one sequence with D = 64 in float32, and the tiles that it takes for that.
struct Fa1Run {
    Fa1Tiles tiles;
    std::int64_t steps;  ///< T_c
    Measured run;
};

Fa1Run fa1(const char* device, std::int64_t heads, std::int64_t N) {
    const Fa1Tiles tiles =
        fa1_tiles(simt::device_from(simt::device_profile(device)), simt::ElementType::f32, /*head_dim=*/64);
    return {tiles, (N + tiles.B_c - 1) / tiles.B_c, measure(2, "fa1_forward", {.heads = heads, .keys = N}, device)};
}

Question blocks(Draw& draw) {
    const std::int64_t B = draw({2, 3}), H = draw({4, 5}), N = draw({128, 160});
    const Measured run = measure(2, "fa1_forward", {.batch = B, .heads = H, .keys = N, .head_dim = 32});
    Question q{
        .situation = fmt::format("fa1_forward on {} sequences with {} heads, N = {} tokens, D = 32, float32.", B, H, N),
        .ask = "How many blocks does it launch?",
        .hint = "The key tiles are the outer loop, and each step updates O, l and m of every row. Who may do that?",
        .source = run.source,
        .command = run.command,
        .section = "Why blocks cannot share the outer loop",
        .formula = double(B * H)};
    q.right(count(run.blocks(), "block"),
            "One for each sequence and head, whatever N is. Two blocks on one head would update "
            "the same O, l and m at the same time.");
    q.wrong(
        count(B * H * ((N + 63) / 64), "block"),
        "A block for each 64 queries is FlashAttention-2's order of loops, which many tutorials call version 1. Here "
        "the keys are outside, and one block walks both loops.");
    q.wrong(count(H, "block"),
            "Sequences have nothing to do with each other, so each has blocks of its own for its heads.");
    q.wrong(count(B * H * N, "block"),
            "A row gets no block of its own: a tile of keys in shared memory is worth its copy only if many "
            "rows use it.");
    return q;
}

Question outer_steps(Draw& draw) {
    const char* const device = draw({"gtx1080", "t4", "v100"});
    const std::int64_t N = draw({256, 320, 400});
    const auto [tiles, steps, run] = fa1(device, 1, N);
    const simt::DeviceProfile& limits = simt::device_profile(device);
    const std::int64_t in_bytes = limits.shared_bytes_per_block_optin / (4 * 64);
    Question q{
        .situation = fmt::format("{} gives a block {} bytes of shared memory. For D = 64 in float32 that makes tiles "
                                 "of B_c = {} keys. There are N = {} keys.",
                                 limits.product, limits.shared_bytes_per_block_optin, tiles.B_c, N),
        .ask = "How often does fa1_forward read the whole of Q?",
        .hint = "While a tile of keys stays, the loop runs over all queries. How many tiles are there?",
        .tolerance = 0,
        .source = run.source,
        .command = run.command,
        .section = "How large is a tile?",
        .formula = double(steps)};
    q.right(count(run.read("Q") / (N * 64 * sizeof(float)), "time"),
            fmt::format("Once for each outer step, T_c = ceil({} / {}) of them.", N, tiles.B_c));
    q.wrong(count(N / tiles.B_c, "time"),
            fmt::format("The last {} keys are a tile, too: a ragged one. Round up.", N % tiles.B_c));
    q.wrong(count(N, "time"),
            "That would be a step for each key, the loop of phase 0. A tile brings B_c of them at once.");
    if (const std::int64_t other = (N + in_bytes - 1) / in_bytes; other != N / tiles.B_c)
        q.wrong(count(other, "time"), fmt::format("That counts M in bytes: B_c = M / 4 d = {}. But M is a number of "
                                                  "elements, and a float32 has four bytes.",
                                                  in_bytes));
    else
        q.wrong(count(steps + 1, "time"),
                "There is no step beyond the last keys: Q comes in with each tile of keys, also "
                "with the first.");
    return q;
}

Question queries_read(Draw& draw) {
    const char* const device = draw({"gtx1080", "t4"});
    const std::int64_t N = draw({192, 256}), H = 2;
    const auto [tiles, steps, run] = fa1(device, H, N);
    const std::uint64_t Q = H * N * 64 * sizeof(float);
    Question q{
        .situation = fmt::format("fa1_forward with tiles of B_c = {} keys and B_r = {} queries ({}): {} heads, N = "
                                 "{}, D = 64, float32. K has {} bytes, and so has Q.",
                                 tiles.B_c, tiles.B_r, simt::device_profile(device).product, H, N, Q),
        .ask = "How many bytes of K and of Q are read, together?",
        .hint = "Which of the two stays in shared memory while the loop runs over the other?",
        .source = run.source,
        .command = run.command,
        .section = "What it moves, derived",
        .formula = double(Q * (1 + steps))};
    q.right(bytes(run.read("K") + run.read("Q")),
            fmt::format("K once; Q once for each of the {} tiles of keys.", steps));
    q.wrong(
        bytes(2 * Q),
        "A tile of keys is read once and stays. But all queries have to meet each tile, so Q is read again and again.");
    q.wrong(bytes(2 * steps * Q), "Only one of the two is read again. While the queries go by, K_j stays where it is.");
    q.wrong(bytes(Q * (1 + steps) / sizeof(float)), "These are elements, of four bytes each.");
    return q;
}

Question output_read(Draw& draw) {
    const char* const device = draw({"gtx1080", "t4"});
    const std::int64_t N = draw({192, 256});
    const auto [tiles, steps, run] = fa1(device, 1, N);
    const std::uint64_t O = N * 64 * sizeof(float);
    Question q{.situation = fmt::format(
                   "fa1_forward on one head, D = 64, float32: N = {} keys make {} tiles of B_c = {}. O has {} bytes.",
                   N, steps, tiles.B_c, O),
               .ask = "How many bytes of O are read, by the kernel that computes it?",
               .hint = "A row is finished when the last tile of keys has passed. Where is it in between?",
               .source = run.source,
               .command = run.command,
               .section = "The loops",
               .formula = double(O * (steps - 1))};
    q.right(bytes(run.read("O")),
            fmt::format("Between any two of {} steps O waits in global memory, so it comes back {} "
                        "times. The first step knows that it starts from zeros, and reads nothing.",
                        steps, steps - 1));
    q.wrong(bytes(0),
            "That is true of FlashAttention-2. With the keys outside, all rows wait for the next tile of keys, and "
            "the chip holds only B_r of them.");
    q.wrong(bytes(steps * O),
            "It is written that often. It is read one time less, since the first step needs no zeros "
            "from memory.");
    q.wrong(bytes(2 * steps * O - O), "That is reads and writes together.");
    return q;
}

Question more_memory(Draw& draw) {
    const std::int64_t N = draw({384, 480});
    const Measured small = fa1("gtx1080", 1, N).run, large = fa1("v100", 1, N).run;
    Question q{
        .situation = fmt::format("A block has 48 KiB of shared memory on a GTX 1080 and 96 KiB on a V100. On the "
                                 "first, fa1_forward moves {} bytes for one head of N = {}, D = 64, float32.",
                                 small.traffic(), N),
        .ask = "How many does it move on the second, compared to that?",
        .hint = "Theorem 2 of the paper has the traffic as N^2 d^2 / M.",
        .source = large.source,
        .command = large.command,
        .section = "So is it still quadratic?",
        .formula = double(large.traffic_by_formula()) / double(small.traffic_by_formula())};
    q.right(
        times(double(large.traffic()) / double(small.traffic())),
        fmt::format("{} bytes. Twice the memory, twice the keys in a tile, half the steps. A little more than a half "
                    "remains, since K and V are read once either way.",
                    large.traffic()));
    q.wrong(times(1),
            "The arithmetic is the same, and so are the results. But Q, O, l and m travel once for each tile of "
            "keys, and there are fewer of them.");
    q.wrong(times(0.25),
            "M is in the law once, not squared: B_c grows with it, and B_r does not change the traffic here.");
    q.wrong(times(2), "More room holds more keys at a time, and that makes fewer steps, not more.");
    return q;
}

Question old_share(Draw& draw) {
    const double odds = draw({2, 3, 4});
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("gtx1080")));
    const int B_c = fa1_tiles(simt::cpu_device(), simt::ElementType::f32, 1).B_c;
    std::vector<double> scores(std::size_t(B_c), 0.0);
    scores.resize(2 * scores.size(), std::log(odds));
    const ScoredRow row(scores);
    Question q{.situation = fmt::format(
                   "A row meets two tiles of {} keys. All scores of the first are 0, all of the second ln {}. "
                   "FlashAttention-1 keeps O divided by l after each tile.",
                   B_c, odds),
               .ask = "By what factor is the old O multiplied when the second tile arrives?",
               .hint = "O was right for the first tile alone. What share of the row's sum does that tile have now?",
               .source = "fa1_forward on the CPU machine, as it showed its factor for the row",
               .command = fmt::format(
                   "python3 -c \"import torch; torch.ops.load_library('build/libflash_ladder.so'); k = "
                   "torch.tensor([0.] * {0} + [{1:.6f}] * {0}).view(1, 1, -1, 1); print(torch.ops.flash_ladder."
                   "fa1_forward(torch.ones(1, 1, 1, 1), k, (k == 0).float(), scale=1.0))\"",
                   B_c, std::log(odds)),
               .section = "The update: lines 11 to 13",
               .formula = 1 / (1 + odds)};
    q.right(
        value(row.last("rescale", fa1_forward)),
        fmt::format("e^(m - m_new) l / l_new = (1/{0}) * {1} / ({1}/{0} + {1}): the share of the old keys in the new "
                    "sum. (The command gives the first tile's keys the value 1, so that out is this share.)",
                    odds, B_c));
    q.wrong(value(1 / odds),
            "That is e^(m - m_new), the factor of FlashAttention-2, whose O is not divided by anything. "
            "Here the old division by l must be undone and the new one made.");
    q.wrong(value(1),
            "The old keys' values have not changed, but they now share the weight with the new keys, and the new "
            "keys score higher.");
    q.wrong(value(odds / (1 + odds)), "That is the new tile's share. The two add up to 1.");
    return q;
}

}  // namespace

std::vector<Topic> questions() {
    return {{"2.blocks", "how many blocks FlashAttention-1 launches", blocks},
            {"2.outer-steps", "how often it reads Q, for a device's tiles", outer_steps},
            {"2.queries-read", "how many bytes of K and Q it reads", queries_read},
            {"2.output-read", "how many bytes of its own output it reads", output_read},
            {"2.more-memory", "what twice the shared memory buys", more_memory},
            {"2.old-share", "what the old O is multiplied by", old_share}};
}

}  // namespace ladder::phase2_fa1
