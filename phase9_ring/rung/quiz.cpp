#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/rung/question.h"
#include "common/torch/torch.h"
#include "phase9_ring/blocks.h"
#include "phase9_ring/merge.h"
#include "phase9_ring/sent_bytes.h"

namespace ladder::phase9_ring {

using namespace quiz;

namespace {

/// Pairs of a query and a key that a rank works on at a step, of a sequence of `length` under a causal mask.
std::int64_t work(Parts parts, std::int64_t length, int rank, int step, int ranks) {
    return pairs(blocks(Mask::causal_bottom_right, part_of(parts, length, rank, ranks),
                        part_of(parts, length, (rank - step + ranks) % ranks, ranks), length, length));
}

std::string ring_command(int ranks, std::int64_t length, const std::string& more) {
    return fmt::format("./ladder ring --device cpu --ranks {} --tokens {} --way ring {}", ranks, length, more);
}

const char* const kBlocks = "blocks(), which the ring asks at every step";

Question idle_steps(Draw& draw) {
    const int ranks = draw({4, 8}), rank = draw({1, 2});
    const std::int64_t length = 64 * ranks;
    int idle = 0;
    for (int step = 0; step < ranks; ++step) idle += work(Parts::contiguous, length, rank, step, ranks) == 0;
    Question q{.situation = fmt::format("{} ranks with contiguous parts, and a causal mask.", ranks),
               .ask = fmt::format("In how many of the {} steps does rank {} have nothing to do?", ranks, rank),
               .hint = "Whose keys do its queries see?",
               .tolerance = 0,
               .source = kBlocks,
               .command = ring_command(ranks, length, "--parts contiguous"),
               .section = "Who idles",
               .formula = double(ranks - 1 - rank)};
    q.right(count(std::uint64_t(idle), "step"),
            fmt::format("It sees its own keys and those of the {} before it. The keys of the {} after it pass through.",
                        rank, ranks - 1 - rank));
    q.wrong(count(0, "step"), "K and V of every rank pass by, but the mask hides those of later ranks.");
    q.wrong(count(std::uint64_t(ranks - 1), "step"), "That many hops there are. Keys of earlier ranks give work.");
    q.wrong(count(std::uint64_t(rank) + (rank == ranks - 1 - rank ? 2 : 0), "step"),
            "That is the number of ranks before it, whose keys it does see.");
    return q;
}

Question time_of_contiguous(Draw& draw) {
    const int ranks = draw({4, 8});
    const std::int64_t held = 128, length = held * ranks;
    std::int64_t longest = 0;
    for (int step = 0; step < ranks; ++step) {
        std::int64_t most = 0;
        for (int rank = 0; rank < ranks; ++rank)
            most = std::max(most, work(Parts::contiguous, length, rank, step, ranks));
        longest += most;
    }
    std::int64_t balanced = 0;
    for (int step = 0; step < ranks; ++step) balanced += work(Parts::zigzag, length, 0, step, ranks);
    const double ratio = double(longest) / double(balanced);
    Question q{
        .situation = fmt::format(
            "{} ranks, {} positions each, a causal mask. A step takes as long as its busiest rank.", ranks, held),
        .ask = "How many times as long does the ring take with contiguous parts as with zigzag parts?",
        .hint = "Add up the busiest rank of each step, for both cuts.",
        .tolerance = 0.02,
        .source = kBlocks,
        .command = ring_command(ranks, length, "--parts contiguous"),
        .section = "Who idles",
        .formula = (double(ranks - 1) * held * held + held * (held + 1) / 2.0) /
                   (double(ranks - 1) * held * held / 2.0 + held * (held + 1) / 2.0)};
    q.right(times(ratio),
            "In all steps after the first some rank has a full block; with zigzag parts every rank has half a block.");
    q.wrong(times(1), "There are as many pairs, but they are not shared out evenly: ranks wait for the busiest.");
    q.wrong(times(double(ranks)),
            "Not even the busiest rank has all the work: its own part of the queries, and all keys.");
    q.wrong(times(2), "Nearly. But in the first step, on its own keys, every rank has a mask with both cuts.");
    return q;
}

Question bytes_of_the_ring(Draw& draw) {
    const int ranks = draw({2, 4, 8});
    const std::int64_t length = draw({256, 512}), heads = 8, kv_heads = draw({2, 8}), D = 64;
    const SentBytes sent = ring_bytes({.query_heads = heads,
                                       .kv_heads = kv_heads,
                                       .query_length = length,
                                       .key_length = length,
                                       .head_dim = D,
                                       .element_bytes = 2},
                                      ranks);
    const std::uint64_t keys = std::uint64_t(2 * kv_heads * length * D * 2);
    Question q{
        .situation =
            fmt::format("{} ranks share a sequence of {} tokens: {} query heads, {} key-value heads, D = {}, bfloat16.",
                        ranks, length, heads, kv_heads, D),
        .ask = "How many bytes do all ranks together send in the forward pass?",
        .hint = "What travels, how large is all of it, and how many hops does each part make?",
        .tolerance = 0,
        .source = "ring_bytes(), which the tests compare with what ranks send",
        .command = ring_command(ranks, length,
                                fmt::format("--dtype bf16 --heads {} --kv-heads {} --head-dim {}", heads, kv_heads, D)),
        .section = "Round and round",
        .formula = double(keys) * (ranks - 1)};
    q.right(bytes(std::uint64_t(sent.forward)), "K and V of every rank make one hop less than there are ranks.");
    q.wrong(bytes(keys * std::uint64_t(ranks)), "After the last step nobody needs the keys: there is one hop less.");
    q.wrong(bytes(keys * std::uint64_t(ranks - 1) / 2), "K and V both travel, and one is as large as the other.");
    if (heads != kv_heads)
        q.wrong(bytes(keys * std::uint64_t(ranks - 1) * std::uint64_t(heads / kv_heads)),
                "Query heads that share a key-value head share what travels.");
    else
        q.wrong(bytes(3 * keys * std::uint64_t(ranks - 1) / 2), "Queries stay where they are.");
    return q;
}

Question merged_value(Draw& draw) {
    const double a = draw({6, 12}), b = draw({2, 3}), O_a = 1, O_b = 5;
    SoFar so_far(at::zeros({1, 1, 1, 1}));
    for (const auto& [sum, out] : {std::pair(a, O_a), {b, O_b}})
        so_far.merge(0, {.out = at::full({1, 1, 1, 1}, out), .lse = at::full({1, 1, 1}, std::log(sum))});
    Question q{.situation = fmt::format(
                   "A row has LSE = ln {} and O = {} of the keys that it met so far. The next rank's keys have "
                   "LSE = ln {} and O = {}.",
                   a, O_a, b, O_b),
               .ask = "What is O of both together?",
               .hint = "How much of the sum of exponentials does each of them have?",
               .source = "the kernel of merge.cuh, on the CPU machine",
               .command = ring_command(2, 128, "--parts contiguous"),
               .section = "One more part",
               .formula = (a * O_a + b * O_b) / (a + b)};
    q.right(value(so_far.result().out.item<double>()),
            fmt::format("({0} * {1} + {2} * {3}) / ({0} + {2}).", a, O_a, b, O_b));
    q.wrong(value((O_a + O_b) / 2), "That counts both alike, though one has a larger sum.");
    q.wrong(value(O_a + O_b), "Both were divided by their own sums already.");
    q.wrong(value(O_b), "The last part does not replace the ones before it.");
    return q;
}

Question home(Draw& draw) {
    const int ranks = draw({4, 8});
    const WholeSizes sizes{.query_heads = 4, .kv_heads = 4, .query_length = 64, .key_length = 64, .head_dim = 32};
    const SentBytes sent = ring_bytes(sizes, ranks);
    const double elements = 2.0 * 4 * 64 * 32;
    const double hops = (double(sent.backward) - double(sent.forward)) / (elements * sizeof(float));
    Question q{.situation = fmt::format("The backward pass over {} ranks. K and V make {} hops.", ranks, ranks - 1),
               .ask = "How many hops do dK and dV make?",
               .hint = "Whose keys does a rank have at the last step?",
               .tolerance = 0,
               .source = "ring_bytes() in float32",
               .command = ring_command(ranks, 64, "--backward"),
               .section = "The way back",
               .formula = double(ranks)};
    q.right(count(std::uint64_t(std::llround(hops)), "hop"), "At the last step they are one hop from home.");
    q.wrong(count(std::uint64_t(ranks - 1), "hop"), "Then each rank would end with the sums of its neighbour's keys.");
    q.wrong(count(std::uint64_t(2 * (ranks - 1)), "hop"), "They go on the way they came, not back.");
    q.wrong(count(1, "hop"), "Each rank's queries add to them, so they must pass all.");
    return q;
}

Question blocks_of_a_step(Draw& draw) {
    const int rank = draw({1, 2}), ranks = 4;
    const std::int64_t length = 64 * ranks;
    const std::vector<Block> found = blocks(Mask::causal_bottom_right, part_of(Parts::zigzag, length, rank, ranks),
                                            part_of(Parts::zigzag, length, 3, ranks), length, length);
    Question q{
        .situation = fmt::format(
            "Four ranks with zigzag parts of 64 positions, and a causal mask. Rank {} has the keys of rank 3.", rank),
        .ask = "Which of its 64 queries see which of these 64 keys?",
        .hint = "Rank 3 holds the two intervals in the middle.",
        .source = kBlocks,
        .command = ring_command(ranks, length, "--parts zigzag"),
        .section = "Who idles",
        .formula = {}};
    q.right(words(fmt::format("the last {} see all {}", found.at(0).queries.length, found.at(0).keys.length)),
            "Its late interval lies after both of rank 3's, its early one before them.");
    q.wrong(words("all see the first 32"), "That is so with the keys of an earlier rank.");
    q.wrong(words("query i sees keys up to i"), "That is so with its own keys: then positions are the same.");
    q.wrong(words("none sees any"), "That would be so with contiguous parts.");
    return q;
}

}  // namespace

std::vector<Topic> questions() {
    return {{"9.merged", "what one more part makes of a row", merged_value},
            {"9.idle", "in how many steps a rank idles", idle_steps},
            {"9.zigzag-block", "what zigzag parts see of each other", blocks_of_a_step},
            {"9.bytes", "how many bytes travel", bytes_of_the_ring},
            {"9.contiguous", "what contiguous parts cost", time_of_contiguous},
            {"9.home", "how far gradients travel", home}};
}

}  // namespace ladder::phase9_ring
