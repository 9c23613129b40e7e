#include <fmt/format.h>

#include <cmath>

#include "common/rung/measure.h"
#include "common/rung/question.h"
#include "common/torch/torch.h"
#include "phase4_causal/causal.h"

namespace ladder::phase4_causal {

using namespace quiz;

namespace {

// The tiles of causal.cuh for D = 64, as the chapter has them; each question's formula holds them against a run.
constexpr std::int64_t kB_r = 64, kB_c = 32, kD = 64;

const char* const kSource = "causal_forward on the CPU machine";

/// The log-sum-exp of each query where all scores are 0: the logarithm of how many keys it sees.
torch::Tensor lse_of_equal_scores(std::int64_t Sq, std::int64_t Sk, Mask mask) {
    const torch::Tensor k = at::zeros({1, 1, Sk, 1}, torch::kFloat32);
    return causal_plain_forward(at::zeros({1, 1, Sq, 1}, torch::kFloat32), k, k, {.scale = 1.0, .mask = mask}).lse;
}

std::string equal_scores_command(std::int64_t Sq, std::int64_t Sk, const std::string& what) {
    return fmt::format(
        "python3 -c \"import torch; torch.ops.load_library('build/libflash_ladder.so'); k = torch.zeros(1, "
        "1, {}, 1); out, lse = torch.ops.flash_ladder.causal_forward(torch.zeros(1, 1, {}, 1), k, k + 5, "
        "scale=1.0, mask='causal_bottom_right'); print({})\"",
        Sk, Sq, what);
}

Question visible(Draw& draw) {
    const std::int64_t Sq = draw({30, 40}), Sk = draw({90, 100}), i = draw({7, 19});
    const auto seen = [&](Mask mask) {
        return std::uint64_t(std::lround(std::exp(lse_of_equal_scores(Sq, Sk, mask)[0][0][i].item<double>())));
    };
    Question q{
        .situation = fmt::format("{} queries, {} keys, the mask aligned bottom-right. Rows count from 0.", Sq, Sk),
        .ask = fmt::format("How many keys does query {} see?", i),
        .hint = "The last query sees the last key. How far is the diagonal shifted?",
        .source = fmt::format("{}, with equal scores, so that exp(LSE) is how many keys a row sees", kSource),
        .command = equal_scores_command(Sq, Sk, fmt::format("lse.exp()[0, 0, {}]", i)),
        .section = "One number for the mask",
        .formula = double(i + 1 + Sk - Sq)};
    q.right(count(seen(Mask::causal_bottom_right), "key"),
            fmt::format("Keys 0 to {} + delta with delta = Sk - Sq = {}: that is {} + 1 + {} of them.", i, Sk - Sq, i,
                        Sk - Sq));
    q.wrong(count(seen(Mask::causal_top_left), "key"),
            "That is the mask aligned top-left, PyTorch's is_causal. Bottom-right "
            "puts the last query next to the last key.");
    q.wrong(count(std::uint64_t(i + Sk - Sq), "key"),
            "One too few: a query sees key i + delta itself as well, its own "
            "token, and keys count from 0.");
    q.wrong(count(std::uint64_t(Sk), "key"),
            "Only the last query sees all. The others must not look at what came after "
            "them.");
    return q;
}

Question blind_rows(Draw& draw) {
    const std::int64_t Sq = draw({100, 120}), Sk = draw({30, 41});
    const auto blind = [&](Mask mask) {
        return std::uint64_t(lse_of_equal_scores(Sq, Sk, mask).eq(-INFINITY).sum().item<std::int64_t>());
    };
    Question q{
        .situation = fmt::format("There are more queries than keys: Sq = {}, Sk = {}, aligned bottom-right.", Sq, Sk),
        .ask = "How many rows, one for each query, see no key at all?",
        .hint = "The last query sees all keys, the one before it one key less. Go on.",
        .tolerance = 0,
        .source = fmt::format("{}: rows whose LSE is -inf", kSource),
        .command = equal_scores_command(Sq, Sk, "lse.isinf().sum()"),
        .section = "Two masks with one name",
        .formula = double(Sq - Sk)};
    q.right(
        count(blind(Mask::causal_bottom_right), "row"),
        fmt::format("Query i sees i + 1 - {0} keys, if that is positive. For i = {0} it is one, so rows 0 to {1} see "
                    "none.",
                    Sq - Sk, Sq - Sk - 1));
    q.wrong(count(blind(Mask::causal_top_left), "row"),
            "Under top-left every query sees at least key 0. Here the diagonal "
            "begins at a later row.");
    q.wrong(count(std::uint64_t(Sq - Sk + 1), "row"),
            fmt::format("One too many: query {0} sees key 0, since 0 <= {0} + Sk - Sq.", Sq - Sk));
    q.wrong(count(std::uint64_t(Sk), "row"), "That many see something: the last ones, one for each key.");
    return q;
}

Question empty_row(Draw& draw) {
    const std::int64_t Sq = draw({8, 12}), Sk = draw({3, 5});
    const torch::Tensor k = at::zeros({1, 1, Sk, 1}, torch::kFloat32);
    const AttentionResult result = causal_plain_forward(at::zeros({1, 1, Sq, 1}, torch::kFloat32), k, k + 5,
                                                        {.scale = 1.0, .mask = Mask::causal_bottom_right});
    const auto pair = [](double out, double lse) { return words(fmt::format("out = {:.4g}, LSE = {:.4g}", out, lse)); };
    Question q{
        .situation = fmt::format("Sq = {}, Sk = {}, bottom-right, so query 0 sees no key. All values are 5.", Sq, Sk),
        .ask = "What are out and LSE of query 0?",
        .hint = "LSE is the logarithm of a sum. What is a sum without terms?",
        .source = kSource,
        .command = equal_scores_command(Sq, Sk, "out[0, 0, 0], lse[0, 0, 0]"),
        .section = "Two masks with one name"};
    q.right(pair(result.out[0][0][0][0].item<double>(), result.lse[0][0][0].item<double>()),
            "No terms: the sum is 0 and its logarithm -inf. out has no value then, and is 0 by convention. Merged with "
            "another part of the keys, such a row weighs nothing, as it should.");
    q.wrong(words("out = nan, LSE = -inf"),
            "0 / 0 is what softmax makes of a row that sees keys whose scores are all -inf. "
            "The kernel tells a row that sees no keys apart, and gives it 0.");
    q.wrong(pair(5, std::log(double(Sk))),
            "That would be the mean over all keys. A mask that hides everything does not turn "
            "into one that hides nothing.");
    q.wrong(pair(0, 0),
            "0 is the logarithm of 1: one key with score 0. Merged with another part, this empty one would "
            "count as a key.");
    return q;
}

Question keys_read(Draw& draw) {
    const std::int64_t N = draw({192, 256, 320}), T = N / kB_r;
    const Measured run = measure(4, "causal_forward", {.heads = 1, .keys = N});
    const std::uint64_t K = N * kD * sizeof(float), all = T * K;
    Question q{
        .situation = fmt::format("causal_forward on one head of N = {} tokens, D = 64, float32: B_r = 64, B_c = 32. "
                                 "Without a mask {} bytes of K are read, all of K for each of {} tiles of queries.",
                                 N, all, T),
        .ask = "How many with the causal mask?",
        .hint = "A tile of queries visits the keys up to its last row. Add that up over the tiles.",
        .source = run.source,
        .command = run.command,
        .section = "How much is saved",
        .formula = double(K * (T + 1)) / 2};
    q.right(bytes(run.read("K")),
            fmt::format("Query tile i visits i + 1 of {0} parts of the keys: (1 + … + {0}) / {0}^2 = {1} "
                        "/ {2}.",
                        T, T + 1, 2 * T));
    q.wrong(bytes(all / 2),
            "The diagonal runs through whole tiles of queries, and their last rows see more than their "
            "first. The share approaches a half as N grows.");
    q.wrong(bytes(all),
            "That is a mask put on scores after they were computed. Here tiles that nobody sees are not even "
            "loaded.");
    q.wrong(bytes(K),
            "Each tile of queries is a block with shared memory of its own, and reads all keys that it needs.");
    return q;
}

Question tiles_visited(Draw& draw) {
    const std::int64_t N = draw({192, 320, 384}), T = N / kB_r;
    const Measured run = measure(4, "causal_forward", {.heads = 1, .keys = N});
    const std::int64_t visited = T * (T + 1), full = T * (T - 1);  // B_r = 2 B_c: 2 (1 + … + T), and two less a row
    Question q{
        .situation = fmt::format("causal_forward on one head of N = {}, D = 64: {} tiles of B_r = 64 queries, {} tiles "
                                 "of B_c = 32 keys. A step of the loop takes one tile of each.",
                                 N, T, N / kB_c),
        .ask = "How many steps do all blocks make, together?",
        .hint = "Draw it: full tiles left of the diagonal, edge tiles on it. B_r is two B_c.",
        .tolerance = 0,
        .source = run.source + ", from the bytes of K that it reads",
        .command = run.command,
        .section = "Three kinds of tiles",
        .formula = double(visited)};
    q.right(count(run.read("K") / (kB_c * kD * sizeof(float)), "step"),
            fmt::format("Query tile i has 2 i full tiles and 2 edge tiles: {} and {} in all.", full, 2 * T));
    q.wrong(count(T * N / kB_c, "step"), "That is without a mask. Tiles above the diagonal are not visited.");
    q.wrong(count(full, "step"),
            "These are the full tiles, which need no test. The tiles on the diagonal must be visited "
            "as well, with one.");
    q.wrong(count(full + T, "step"),
            "One edge tile for a tile of queries would be enough if B_r were B_c. The diagonal crosses two "
            "tiles of keys on its way down 64 rows.");
    return q;
}

Question hidden_score(Draw& draw) {
    const double hidden = draw({100, 500, 1000});
    torch::Tensor k = at::zeros({1, 1, 3, 1}, torch::kFloat32);
    k[0][0][2][0] = hidden;
    const AttentionResult result = causal_plain_forward(at::ones({1, 1, 3, 1}, torch::kFloat32), k, k,
                                                        {.scale = 1.0, .mask = Mask::causal_bottom_right});
    Question q{
        .situation = fmt::format("Three queries, three keys, causal. Every query's scores are 0, 0 and {}.", hidden),
        .ask = "What is LSE of query 1?",
        .hint = "Which keys does it see? Does a hidden one enter the maximum, or the sum?",
        .source = kSource,
        .command = fmt::format("python3 -c \"import torch; torch.ops.load_library('build/libflash_ladder.so'); k = "
                               "torch.tensor([0., 0., {}.]).view(1, 1, 3, 1); print(torch.ops.flash_ladder."
                               "causal_forward(torch.ones(1, 1, 3, 1), k, k, scale=1.0, "
                               "mask='causal_bottom_right')[1])\"",
                               hidden),
        .section = "Misconceptions",
        .formula = std::log(2.0)};
    q.right(value(result.lse[0][0][1].item<double>()),
            "ln 2: two visible keys with score 0. The hidden one enters neither "
            "the maximum nor the sum.");
    q.wrong(value(std::log(3.0)),
            "Masking does not set the score to 0: a score of 0 would have weight e^(0 - m), here as much as the others "
            "have. A hidden score counts as -inf.");
    q.wrong(value(hidden), "That is LSE of query 2, which does see the third key.");
    q.wrong(words("-inf"),
            fmt::format("That would be right if the hidden score entered the maximum: a maximum too large cancels "
                        "on paper, but e^(0 - {}) underflows to 0 in float32. The code keeps it out.",
                        hidden));
    return q;
}

Question base_two(Draw& draw) {
    const double s = draw({1, 2, 3});
    const std::vector<double> scores = {s, s};
    const ScoredRow row(scores);
    constexpr double kLog2e = 1.4426950408889634;
    Question q{
        .situation = fmt::format("A row of two keys, both with score {} (scale 1). This phase's kernel takes powers of "
                                 "2, with log2(e) in the scale.",
                                 s),
        .ask = "What is m, as the kernel keeps it?",
        .hint = "m is the largest of the exponents that the kernel computes. 2 to which power is e^s?",
        .source = "causal_forward on the CPU machine, as it showed its m for the row",
        .command = python_command(scores, "causal_forward"),
        .section = "exp2, and one FMA for a score",
        .formula = s * kLog2e};
    q.right(
        value(row.last("m", causal_plain_forward)),
        fmt::format("m = {0} log2(e), since 2^({0} log2(e)) = e^{0}. At the end LSE = ln 2 (m + log2 l) turns it back: "
                    "{1:.4g}, which the command prints.",
                    s, row.lse(causal_plain_forward)));
    q.wrong(value(s),
            "That is the score, in powers of e. The scale has log2(e) in it, so that exp2 alone is enough: 2^s is not "
            "e^s.");
    q.wrong(value(s / kLog2e),
            "The other way round: that is s ln 2. e is more than 2, so the same number is a higher power "
            "of 2.");
    q.wrong(value(row.lse(causal_plain_forward)),
            "That is LSE, after m and l were put together and brought back to base e.");
    return q;
}

}  // namespace

std::vector<Topic> questions() {
    return {{"4.visible", "how many keys a query sees", visible},
            {"4.blind-rows", "how many queries see nothing", blind_rows},
            {"4.empty-row", "what such a query gets", empty_row},
            {"4.keys-read", "how many bytes of K the mask saves", keys_read},
            {"4.tiles-visited", "how many tiles are visited", tiles_visited},
            {"4.hidden-score", "what a hidden score counts for", hidden_score},
            {"4.base-two", "what m is in powers of 2", base_two}};
}

}  // namespace ladder::phase4_causal
