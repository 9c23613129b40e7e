#include <gtest/gtest.h>

#include <algorithm>

#include "common/reference/checks.h"
#include "phase9_ring/blocks.h"
#include "phase9_ring/parts.h"

namespace ladder {
namespace {

using reference::throws_mentioning;

constexpr Parts kParts[] = {Parts::contiguous, Parts::zigzag};

std::vector<std::int64_t> positions(const std::vector<Interval>& part) {
    std::vector<std::int64_t> all;
    for (const Interval& run : part)
        for (std::int64_t i = 0; i < run.length; ++i) all.push_back(run.first + i);
    return all;
}

TEST(RingParts, EveryPositionIsHeldOnce) {
    for (const Parts parts : kParts)
        for (const std::int64_t length : {1, 2, 7, 16, 33})
            for (const int ranks : {1, 2, 3, 5, 8}) {
                std::vector<int> holders(length);
                for (int rank = 0; rank < ranks; ++rank) {
                    const std::vector<Interval> part = part_of(parts, length, rank, ranks);
                    for (const std::int64_t position : positions(part)) ++holders[position];
                    EXPECT_NEAR(double(length_of(part)), double(length) / ranks, 2);
                    EXPECT_TRUE(std::ranges::is_sorted(positions(part)));
                }
                EXPECT_EQ(holders, std::vector<int>(length, 1));
            }
}

TEST(RingParts, ZigzagTakesOneRunFromEachEnd) {
    EXPECT_EQ(positions(part_of(Parts::contiguous, 16, 1, 4)), (std::vector<std::int64_t>{4, 5, 6, 7}));
    EXPECT_EQ(positions(part_of(Parts::zigzag, 16, 1, 4)), (std::vector<std::int64_t>{2, 3, 12, 13}));
}

TEST(RingParts, RejoiningUndoesCutting) {
    const torch::Tensor whole = at::arange(2 * 13 * 3).view({2, 13, 3});
    for (const Parts parts : kParts)
        for (const int ranks : {1, 2, 3, 4, 8}) {
            std::vector<torch::Tensor> held;
            for (int rank = 0; rank < ranks; ++rank) {
                held.push_back(cut_sequence(whole, 1, parts, rank, ranks));
                EXPECT_TRUE(held.back().is_contiguous());
            }
            EXPECT_TRUE(at::equal(rejoin_sequence(held, 1, parts), whole));
        }
    EXPECT_TRUE(throws_mentioning(
        [&] {
            rejoin_sequence({whole.narrow(1, 0, 5), whole.narrow(1, 5, 3)}, 1, Parts::contiguous);
        },
        {"rejoin_sequence: part 0 has length 5", "8", "4"}));
}

/// Which rows of a part see which keys of another, from the blocks.
torch::Tensor seen(const std::vector<Block>& blocks, std::int64_t queries, std::int64_t keys) {
    const torch::Tensor seen = at::zeros({queries, keys}, torch::kInt64);
    for (const Block& block : blocks)
        for (std::int64_t i = 0; i < block.queries.length; ++i)
            for (std::int64_t j = 0; j < block.keys.length; ++j)
                if (block.mask == Mask::none || j <= i + block.keys.length - block.queries.length)
                    seen[block.queries.first + i][block.keys.first + j] += 1;
    return seen;
}

/// What the blocks should say, position by position.
torch::Tensor expected(Mask mask, const std::vector<Interval>& queries, const std::vector<Interval>& keys,
                       std::int64_t shift) {
    const std::vector<std::int64_t> rows = positions(queries), columns = positions(keys);
    const torch::Tensor seen = at::zeros({std::int64_t(rows.size()), std::int64_t(columns.size())}, torch::kInt64);
    for (std::size_t i = 0; i < rows.size(); ++i)
        for (std::size_t j = 0; j < columns.size(); ++j)
            if (mask == Mask::none || columns[j] <= rows[i] + shift) seen[i][j] += 1;
    return seen;
}

void check_blocks(Parts parts, int ranks, std::int64_t query_length, std::int64_t key_length, Mask mask) {
    for (int rank = 0; rank < ranks; ++rank)
        for (int owner = 0; owner < ranks; ++owner) {
            const std::vector<Interval> queries = part_of(parts, query_length, rank, ranks);
            const std::vector<Interval> keys = part_of(parts, key_length, owner, ranks);
            const std::vector<Block> found = blocks(mask, queries, keys, query_length, key_length);
            const torch::Tensor got = seen(found, length_of(queries), length_of(keys));
            const torch::Tensor right =
                expected(mask, queries, keys, mask == Mask::causal_bottom_right ? key_length - query_length : 0);
            EXPECT_TRUE(at::equal(got, right)) << ranks << " ranks, rank " << rank << " with the keys of " << owner
                                               << ", lengths " << query_length << ' ' << key_length;
            EXPECT_EQ(pairs(found), right.sum().item<std::int64_t>());
        }
}

TEST(RingBlocks, AreTheMaskOfTheWhole) {
    for (const Parts parts : kParts)
        for (const int ranks : {1, 2, 3, 4})
            for (const Mask mask : {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left}) {
                check_blocks(parts, ranks, 12, 12, mask);
                check_blocks(parts, ranks, 7, 12, mask);
                check_blocks(parts, ranks, 12, 7, mask);
                check_blocks(parts, ranks, 3, 17, mask);
                check_blocks(parts, ranks, 1, 1, mask);
            }
}

/// Pairs that each rank works on at a step, when all have the same number of positions.
std::vector<std::vector<std::int64_t>> work(Parts parts, std::int64_t length, int ranks) {
    std::vector<std::vector<std::int64_t>> steps(ranks, std::vector<std::int64_t>(ranks));
    for (int step = 0; step < ranks; ++step)
        for (int rank = 0; rank < ranks; ++rank)
            steps[step][rank] =
                pairs(blocks(Mask::causal_top_left, part_of(parts, length, rank, ranks),
                             part_of(parts, length, (rank - step + ranks) % ranks, ranks), length, length));
    return steps;
}

TEST(RingBlocks, ZigzagSharesOutTheWorkOfACausalMask) {
    constexpr std::int64_t kHeld = 32;  // a rank
    const auto contiguous = work(Parts::contiguous, 4 * kHeld, 4), zigzag = work(Parts::zigzag, 4 * kHeld, 4);
    for (int step = 1; step < 4; ++step)
        for (int rank = 0; rank < 4; ++rank) {
            EXPECT_EQ(contiguous[step][rank], rank >= step ? kHeld * kHeld : 0);
            EXPECT_EQ(zigzag[step][rank], kHeld * kHeld / 2);
        }
    EXPECT_EQ(zigzag[0], std::vector<std::int64_t>(4, kHeld * (kHeld + 1) / 2));
}

TEST(RingBlocks, AreFewAndLarge) {
    const auto of = [](int rank, int owner) {
        return blocks(Mask::causal_bottom_right, part_of(Parts::zigzag, 64, rank, 4),
                      part_of(Parts::zigzag, 64, owner, 4), 64, 64);
    };
    for (int rank = 0; rank < 4; ++rank)
        for (int owner = 0; owner < 4; ++owner) {
            ASSERT_EQ(of(rank, owner).size(), 1u);
            EXPECT_EQ(of(rank, owner)[0].mask, rank == owner ? Mask::causal_bottom_right : Mask::none);
        }
}

}  // namespace
}  // namespace ladder
