#include <fmt/format.h>

#include <cmath>

#include "common/rung/measure.h"
#include "common/rung/question.h"
#include "common/torch/torch.h"
#include "phase5_decoding/decode.h"
#include "phase5_decoding/split_plan.h"

namespace ladder::phase5_decoding {

using namespace quiz;

namespace {

/// One token on a T4: 40 multiprocessors, a few splits for a few hundred keys.
constexpr const char* kDevice = "t4";

Measured decode(std::int64_t B, std::int64_t Hq, std::int64_t Hkv, std::int64_t N,
                torch::ScalarType dtype = torch::kFloat32) {
    return measure(5, "flash_decode",
                   {.batch = B, .heads = Hq, .kv_heads = Hkv, .keys = N, .head_dim = 32, .dtype = dtype}, kDevice);
}

std::uint64_t splits_of(const Measured& run) { return run.launch().launch.grid[0]; }

std::uint64_t key_tiles(std::int64_t N) { return std::uint64_t((N + kKeyTile - 1) / kKeyTile); }

/// Partial results of one row with D = 1: their sums of exponentials, and their O.
struct Parts {
    std::vector<double> sums, outs;

    AttentionResult merged() const {
        const std::int64_t P = std::int64_t(sums.size());
        const torch::Tensor out = at::empty({P, 1, 1, 1, 1}, torch::kFloat32),
                            lse = at::empty({P, 1, 1, 1}, torch::kFloat32);
        for (std::size_t p = 0; p < sums.size(); ++p) {
            out.data_ptr<float>()[p] = float(outs[p]);
            lse.data_ptr<float>()[p] = float(std::log(sums[p]));
        }
        return merge_partials(out, lse);
    }

    std::string command() const {
        return fmt::format(
            "python3 -c \"import torch; torch.ops.load_library('build/libflash_ladder.so'); "
            "print(torch.ops.flash_ladder.merge_partials(torch.tensor([{}.]).view(-1, 1, 1, 1, 1), "
            "torch.tensor([{}.]).log().view(-1, 1, 1, 1)))\"",
            list_of(outs), list_of(sums));
    }
};

const char* const kMergeSource = "merge_partials, the combine kernel alone, on the CPU machine";

Question weighted_mean(Draw& draw) {
    const double a = draw({6, 10, 12}), b = 2, O_a = 1, O_b = draw({4, 5});
    const Parts parts{{a, b}, {O_a, O_b}};
    Question q{.situation = fmt::format(
                   "Two splits of a row leave LSE = ln {}, O = {} and LSE = ln {}, O = {} (D = 1).", a, O_a, b, O_b),
               .ask = "What is O of the whole row?",
               .hint = "How much of the row's sum of exponentials did each of them see?",
               .source = kMergeSource,
               .command = parts.command(),
               .section = "Why attention can be merged",
               .formula = (a * O_a + b * O_b) / (a + b)};
    q.right(value(parts.merged().out.item<double>()),
            fmt::format("({0} * {1} + {2} * {3}) / ({0} + {2}): each counts by the sum that it saw, e^LSE.", a, O_a, b,
                        O_b));
    q.wrong(value((O_a + O_b) / 2),
            "The plain mean is right only if both splits saw equally much. One split may hold the key "
            "that everybody looks at.");
    q.wrong(value(O_a + O_b),
            "Sums add up, but each O was divided by its split's own sum already. Undo that first, and "
            "divide by the common one.");
    q.wrong(value((std::log(a) * O_a + std::log(b) * O_b) / std::log(a * b)),
            "That weighs by LSE. The weights are e^(LSE_p - LSE): the sums, not their logarithms.");
    q.wrong(value(O_a), "The larger split does not win. It weighs more, and that is all.");
    return q;
}

Question whole_lse(Draw& draw) {
    const double a = draw({3, 6}), b = draw({2, 5});
    const Parts parts{{a, b}, {1, 1}};
    Question q{.situation = fmt::format("Two splits leave LSE = ln {} = {:.4g} and LSE = ln {} = {:.4g}.", a,
                                        std::log(a), b, std::log(b)),
               .ask = "What is LSE of the whole row?",
               .hint = "LSE_p is the logarithm of a sum over the split's keys. The splits have no key in common.",
               .source = kMergeSource,
               .command = parts.command(),
               .section = "Why attention can be merged",
               .formula = std::log(a + b)};
    q.right(value(parts.merged().lse.item<double>()),
            fmt::format("ln({} + {}): the sums add up, each key counted once.", a, b));
    q.wrong(value(std::log(a * b)), "Adding logarithms multiplies the sums. It is the sums themselves that add up.");
    q.wrong(value(std::log(std::max(a, b))),
            "The maximum is how running maxima merge, and a good first guess where one split "
            "is far larger. The other one is part of the sum all the same.");
    q.wrong(value(std::log((a + b) / 2)),
            "That is the logarithm of a mean. LSE is about the sum over all keys, and all keys "
            "are more than the keys of a split.");
    return q;
}

Question empty_split(Draw& draw) {
    const double a = draw({10, 12, 14}), b = 2, O_a = 1, O_b = 5;
    const Parts parts{{a, b, 0}, {O_a, O_b, 0}};
    Question q{.situation =
                   fmt::format("A short sequence: of three splits the third has no keys, and leaves O = 0. The others "
                               "leave LSE = ln {}, O = {} and LSE = ln {}, O = {}. A fellow student lets the empty "
                               "one leave LSE = 0 as well; the kernel does it right.",
                               a, O_a, b, O_b),
               .ask = "What is O of the row, done right?",
               .hint = "What is the logarithm of a sum without terms, and what weight does that give?",
               .source = kMergeSource,
               .command = parts.command(),
               .section = "Why attention can be merged",
               .formula = (a * O_a + b * O_b) / (a + b)};
    q.right(value(parts.merged().out.item<double>()),
            "Its LSE is ln 0 = -inf, its weight e^-inf = 0: as if it were not there.");
    q.wrong(value((a * O_a + b * O_b) / (a + b + 1)),
            "That is the fellow student's: LSE = 0 is ln 1, one key with score 0. Its "
            "O of 0 then pulls the mean down.");
    q.wrong(value((O_a + O_b) / 3),
            "Three splits, but not three equal ones: an empty split has no say, and the other two "
            "weigh by their sums.");
    q.wrong(words("NaN, since -inf enters the merge"),
            "-inf - (-inf) would be NaN. It arises only where all parts of a row are empty, and merge_weight checks "
            "for that first.");
    return q;
}

Question keys_read(Draw& draw) {
    const std::int64_t Hkv = 2, G = draw({2, 4}), N = draw({384, 640});
    const Measured run = decode(1, Hkv * G, Hkv, N);
    const std::uint64_t K = Hkv * N * 32 * sizeof(float), splits = splits_of(run);
    Question q{.situation =
                   fmt::format("flash_decode, one token: {} query heads on {} KV heads, {} keys, D = 32, float32, cut "
                               "into {} splits.",
                               Hkv * G, Hkv, N, splits),
               .ask = "How many bytes of K are read?",
               .hint = "Which rows does a block handle together, and which keys are its own?",
               .source = run.source,
               .command = run.command,
               .section = "Grouped heads: whose keys are whose",
               .formula = double(K)};
    q.right(bytes(run.read("K")),
            fmt::format("Each key once. Splits share the keys out, and the {} query heads of a group are "
                        "rows of one block.",
                        G));
    q.wrong(bytes(G * K),
            "That is phase 3's way, a block for each query head. Decoding is bound by memory, so here the "
            "group shares one pass over its keys.");
    q.wrong(bytes(splits * K),
            "A split reads its own keys only. What is read again for each split is Q, which is small.");
    q.wrong(bytes(K / sizeof(float)), "These are elements, of four bytes each.");
    return q;
}

Question planned_splits(Draw& draw) {
    const std::int64_t Hkv = 2, N = draw({384, 512, 640});
    const Measured run = decode(1, 4 * Hkv, Hkv, N);
    const simt::DeviceProfile& device = simt::device_profile(kDevice);
    const std::uint64_t slots = std::uint64_t(device.multiprocessors * resident_blocks(4));
    Question q{.situation =
                   fmt::format("One token on {}: {} multiprocessors, each with room for {} blocks. 8 query heads on 2 "
                               "KV heads, {} keys. Splits are made of whole tiles of {} keys.",
                               device.product, device.multiprocessors, resident_blocks(4), N, int(kKeyTile)),
               .ask = "Into how many splits does the plan cut the keys?",
               .hint = "Two blocks without a split are far too few for this device. What stops the plan?",
               .tolerance = 0,
               .source = run.source + ", from its grid",
               .command = run.command,
               .section = "How many splits?",
               .formula = double(key_tiles(N))};
    q.right(count(splits_of(run), "split"),
            fmt::format("{} keys are {} tiles, and one more split would be empty. Most of the "
                        "device stays idle: the sequence is too short for it.",
                        N, key_tiles(N)));
    q.wrong(count(slots / std::uint64_t(Hkv), "split"),
            fmt::format("That many would fill all {} places. But there are only {} "
                        "tiles of keys to give to them.",
                        slots, key_tiles(N)));
    q.wrong(count(1, "split"),
            "Without a split there are 2 blocks, and all other multiprocessors wait. A merge costs less "
            "than that.");
    q.wrong(count(std::uint64_t(N / 32), "split"),
            "32 keys are what a warp takes in one step. A split is a block's, and that "
            "takes four warps' worth.");
    return q;
}

Question blocks(Draw& draw) {
    const std::int64_t B = draw({1, 2}), Hkv = 2, G = draw({4, 8}), N = 640;
    const Measured run = decode(B, Hkv * G, Hkv, N);
    const std::uint64_t splits = splits_of(run);
    Question q{
        .situation = fmt::format("flash_decode, one token: {} sequence{}, {} query heads on {} KV heads, {} keys, {} "
                                 "splits.",
                                 B, B == 1 ? "" : "s", Hkv * G, Hkv, N, splits),
        .ask = "How many blocks does the split kernel launch?",
        .hint = "All rows that read the same keys are in one block.",
        .source = run.source,
        .command = run.command,
        .section = "Grouped heads: whose keys are whose",
        .formula = double(B * Hkv * std::int64_t(splits))};
    q.right(count(run.blocks(), "block"),
            fmt::format("One for each split of each KV head of each sequence. Its rows are the {} "
                        "query heads of the group.",
                        G));
    q.wrong(count(std::uint64_t(B * Hkv * G) * splits, "block"),
            "A block for each query head would fetch every key once for "
            "each head of the group.");
    q.wrong(count(std::uint64_t(B * Hkv), "block"), "That is without splits: the grid that left most of the GPU idle.");
    q.wrong(count(std::uint64_t(B * Hkv * G), "block"),
            "That is phase 3's grid for one token: a block for each query head, "
            "however long the cache is.");
    return q;
}

Question parts_written(Draw& draw) {
    const std::int64_t Hkv = 2, G = draw({4, 8}), N = draw({640, 768});
    const Measured run = decode(1, Hkv * G, Hkv, N, torch::kFloat16);
    const std::uint64_t splits = splits_of(run), row = 32 * sizeof(float);
    Question q{
        .situation = fmt::format("flash_decode with float16 inputs, one token: {} query heads on {} KV heads, D = 32, "
                                 "{} splits.",
                                 Hkv * G, Hkv, splits),
        .ask = "How many bytes of partial O does the split kernel write?",
        .hint = "A vector of D numbers for each row and split. In which type would you keep what is not finished?",
        .source = run.source,
        .command = run.command,
        .section = "What it moves",
        .formula = double(splits * Hkv * G * row)};
    q.right(bytes(run.written("O_part")),
            fmt::format("{} splits of {} rows of 32 float32 numbers. The combine kernel reads "
                        "them back and rounds once.",
                        splits, Hkv * G));
    q.wrong(bytes(splits * Hkv * G * row / 2),
            "The inputs are float16, but a partial result that was rounded to it would be "
            "rounded a second time after the merge. It is kept in float32.");
    q.wrong(bytes(Hkv * G * row),
            "Each split leaves a result of its own. They cannot share one: nothing orders the blocks of "
            "a launch.");
    q.wrong(bytes(splits * Hkv * row),
            "The query heads of a group share keys, not results: each is a row with an O of its "
            "own.");
    return q;
}

Question barriers(Draw& draw) {
    const std::int64_t Hkv = draw({6, 8}), few = 512, many = 4096;
    const Measured small = decode(1, Hkv, Hkv, few), run = decode(1, Hkv, Hkv, many);
    const auto per_block = [](const Measured& m) { return m.launch().launch.counters.block_barriers / m.blocks(); };
    const std::uint64_t before = per_block(small), tiles = (key_tiles(many) + splits_of(run) - 1) / splits_of(run);
    Question q{
        .situation = fmt::format(
            "{} heads, one token. With {} keys a block of the split kernel has one tile of 128 keys, and completes {} "
            "__syncthreads(). With {} keys there are {} splits, so a block has up to {} tiles.",
            Hkv, few, before, many, splits_of(run), tiles),
        .ask = "How many __syncthreads() does it complete then?",
        .hint = "What do the four warps of a block share while they go through the keys?",
        .source = run.source,
        .command = run.command,
        .section = "Everything shares out keys",
        .formula = double(before)};
    q.right(count(per_block(run), "barrier"),
            "The same number. None is in the loop over the keys: a warp has keys of its own, and meets "
            "the others only when Q_i is there and when all are done.");
    q.wrong(count(tiles * before, "barrier"),
            "That would be so if the warps met after each tile. Each keeps m, l and O of its "
            "own instead, and they merge once.");
    q.wrong(count(before + 2 * (tiles - 1), "barrier"),
            "Two per tile is phase 3, where all warps read one K_j and V_j. Here no "
            "warp touches what another has fetched.");
    q.wrong(count(0, "barrier"),
            "The loop over the keys has none, but the warps must merge in the end, and they do it in turns "
            "so that runs repeat bitwise.");
    return q;
}

}  // namespace

std::vector<Topic> questions() {
    return {{"5.weighted-mean", "which O two splits give", weighted_mean},
            {"5.whole-lse", "which LSE two splits give", whole_lse},
            {"5.empty-split", "what a split without keys does to it", empty_split},
            {"5.keys-read", "how many bytes of K grouped heads and splits read", keys_read},
            {"5.blocks", "how many blocks the split kernel launches", blocks},
            {"5.planned-splits", "how many splits the plan makes", planned_splits},
            {"5.parts-written", "how many bytes of partial results are written", parts_written},
            {"5.barriers", "how barriers grow with the keys", barriers}};
}

}  // namespace ladder::phase5_decoding
