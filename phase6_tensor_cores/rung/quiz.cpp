#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "common/rung/measure.h"
#include "common/rung/question.h"
#include "common/simt/device/occupancy.h"
#include "common/simt/report/trace.h"
#include "common/torch/torch.h"
#include "phase6_tensor_cores/mma.h"

namespace ladder::phase6_tensor_cores {

using namespace quiz;

namespace {

// Of mma.cuh, and of every mma: the chapter's numbers. Each question's formula holds them against a run.
constexpr std::int64_t kB_r = 64, kB_c = 64, kWarps = 4, kLanesOfARow = 4;

const char* const kSource = "mma_plain_forward on the CPU machine";
const char* const kLoad =
    "python3 -c \"import torch; torch.ops.load_library('build/libflash_ladder.so'); "
    "mma = torch.ops.flash_ladder.mma_forward; ";

torch::Tensor column(const std::vector<double>& numbers, torch::ScalarType dtype) {
    const torch::Tensor column = at::empty({1, 1, std::int64_t(numbers.size()), 1}, torch::kFloat32);
    std::copy(numbers.begin(), numbers.end(), column.data_ptr<float>());
    return column.to(dtype);
}

/// What one head of so many queries and keys costs, in float16 and without a mask.
simt::Counters counted(AttentionEntry entry, std::int64_t Sq, std::int64_t Sk, std::int64_t D) {
    const simt::LaunchLog log;
    const torch::Tensor k = at::ones({1, 1, Sk, D}, torch::kFloat16);
    entry(at::ones({1, 1, Sq, D}, torch::kFloat16), k, k, {});
    return log.total();
}

/// What mma.cuh's four warps do for one key tile more, all that is counted of it.
struct OfATile {
    std::uint64_t collectives, reads, read_wavefronts;
};

OfATile of_a_tile(AttentionEntry entry, std::int64_t D) {
    const simt::Counters one = counted(entry, kB_r, kB_c, D), two = counted(entry, kB_r, 2 * kB_c, D);
    return {two.warp_collectives - one.warp_collectives, two.shared_read_requests - one.shared_read_requests,
            two.shared_read_wavefronts - one.shared_read_wavefronts};
}

/// What the lanes of a row showed last of their sums l, each under its number, in the first block.
std::map<std::int64_t, double> sums_of_lanes(std::int64_t row, const torch::Tensor& q, const torch::Tensor& k) {
    const simt::LaunchLog log(simt::LaunchLog::Detail::bytes);
    const simt::TraceLog traced({});
    mma_plain_forward(q, k, k, {.scale = 1.0});
    std::map<std::int64_t, double> sums;
    for (const simt::TracedMoment& moment : traced.launches().front().blocks.front().moments)
        for (const simt::TracedValues& shown : moment.values) {
            if (shown.name != "l" || row < shown.first_row || row >= shown.first_row + shown.rows) continue;
            for (std::int64_t c = 0; c < shown.columns; ++c)
                if (const auto& l = shown.values[std::size_t((row - shown.first_row) * shown.columns + c)])
                    sums[shown.first_column + c] = *l;
        }
    return sums;
}

Question lanes_of_a_row(Draw& draw) {
    const std::int64_t N = draw({32, 64}), r = draw({2, 7, 13});
    const torch::Tensor k = at::zeros({1, 1, N, 1}, torch::kFloat16);
    const auto lanes = sums_of_lanes(r, at::ones({1, 1, 16, 1}, torch::kFloat16), k).size();
    Question q{.situation = fmt::format("mma_plain_forward, {} keys in one tile. S_ij, and then P_ij, lies in the "
                                        "registers of a warp as the accumulators of mma.m16n8k16.",
                                        N),
               .ask = fmt::format("How many lanes hold weights of query {}?", r),
               .hint =
                   "An accumulator is 16 rows by 8 columns, four elements per lane. How many rows does a lane have "
                   "a part of?",
               .tolerance = 0,
               .source = fmt::format("{}: the lanes that showed a sum l of this row", kSource),
               .command = fmt::format("./ladder trace 6 --kernel mma_plain_forward --keys {} --dtype f16", N),
               .section = "Who holds what",
               .formula = double(kLanesOfARow)};
    q.right(count(lanes, "lane"),
            "Four lanes have a row, two neighbouring columns of every eight each. All further fragments, of the next "
            "eight keys, are dealt out in the same way, so it stays four for any number of keys.");
    q.wrong(count(8, "lane"),
            "Eight was the number in phase 3, where eight threads had a row by our own choice. The "
            "instruction deals 8 columns to four lanes, two each.");
    q.wrong(count(32, "lane"),
            "The warp multiplies as a whole, but each lane has elements of two rows only, of the sixteen.");
    q.wrong(count(1, "lane"),
            "One lane per row would be simple for the softmax: no shuffle at all. But the instruction spreads a row "
            "over four lanes.");
    return q;
}

Question lane_of_a_score(Draw& draw) {
    const std::int64_t r = draw({3, 6, 9}), c = draw({5, 10, 20}), N = 32;
    // Only this key's weight is not 0, and so only one lane's sum.
    torch::Tensor k = at::full({1, 1, N, 1}, -1000.0, torch::kFloat16);
    k[0][0][c][0] = 0.0;
    std::int64_t lane_of_row = -1;
    for (const auto& [lane, l] : sums_of_lanes(r, at::ones({1, 1, 16, 1}, torch::kFloat16), k))
        if (l != 0) lane_of_row = lane;
    const auto lane = [&](std::int64_t row, std::int64_t column) { return row % 8 * 4 + column % 8 / 2; };
    const auto number = [](std::int64_t n) { return words(fmt::format("lane {}", n)); };
    Question q{.situation = "The first warp of mma_plain_forward has the scores S of queries 0 to 15 in its registers.",
               .ask = fmt::format("Which lane holds S({}, {}), the score of query {} and key {}?", r, c, r, c),
               .hint = "Take the row modulo 8 first, the column modulo 8 next: four lanes share a row.",
               .source = fmt::format("{}: every other key had weight 0, and one lane's l was above 0", kSource),
               .command = fmt::format("./ladder trace 6 --kernel mma_plain_forward --keys {} --dtype f16", N),
               .section = "Who holds what"};
    q.right(number(r % 8 * 4 + lane_of_row),
            fmt::format("Group g = {} % 8 = {} has the row, and in it lane t = {} % 8 / 2 = {} the column: 4 g + t.", r,
                        r % 8, c, lane_of_row));
    q.wrong(number(lane(c, r)),
            "Rows and columns are exchanged. That is how operand B lies, where a lane has a column.");
    q.wrong(number(r % 8 * 4 + c % 4),
            "A lane's two columns are neighbours: lane t of a group has 2 t and 2 t + 1, not t and t + 4.");
    q.wrong(number((r * 2 + c % 8 / 4) % 32),
            "Two lanes per row would be right if a lane had four columns of one row. It has two columns of "
            "two rows, eight apart.");
    return q;
}

Question sum_of_a_lane(Draw& draw) {
    const std::int64_t N = draw({20, 27, 35}), lane = draw({0, 1});
    const torch::Tensor k = at::zeros({1, 1, N, 1}, torch::kFloat16);
    const double l = sums_of_lanes(5, at::ones({1, 1, 16, 1}, torch::kFloat16), k).at(lane);
    const std::int64_t rest = std::clamp<std::int64_t>(N % 8 - 2 * lane, 0, 2);
    Question q{
        .situation = fmt::format("mma_plain_forward, {} keys whose scores are all 0, so that every weight is 1.", N),
        .ask = fmt::format("Before the results are stored, what is l in the {} of the four lanes of query 5?",
                           lane == 0 ? "first" : "second"),
        .hint = "Which columns of every eight are the lane's? And does anything add up lanes before the end?",
        .tolerance = 0,
        .source = fmt::format("{}, as it showed l", kSource),
        .command = fmt::format("./ladder trace 6 --kernel mma_plain_forward --keys {} --dtype f16", N),
        .section = "The lesson's kernel, from top to bottom",
        .formula = double(N / 8 * 2 + rest)};
    q.right(value(l),
            fmt::format("Keys {0} and {1} of every eight are the lane's: {2} of {3}. The four lanes are added up once, "
                        "when O is divided.",
                        2 * lane, 2 * lane + 1, N / 8 * 2 + rest, N));
    q.wrong(value(double(N)),
            "That is l of the row. It is made of the four lanes' sums at the very end, since all four have "
            "the same maximum and each may add up its own.");
    q.wrong(value(double(N) / 4),
            "A quarter would be right if 8 divided the number of keys. The last keys are not spread evenly.");
    q.wrong(value(double((N + 31) / 32)),
            "One key of every 32 would be a lane's if a row were spread over the whole warp. It is spread over four "
            "lanes.");
    return q;
}

Question products(Draw& draw) {
    const std::int64_t D = draw({32, 64, 128});
    const OfATile tile = of_a_tile(mma_plain_forward, D);
    // What a warp does together besides: the ldmatrix counted, two rows' maxima over four lanes, and a vote.
    constexpr std::uint64_t shuffles = 2 * 2, votes = 1;
    const std::uint64_t of_a_warp = (tile.collectives - tile.reads) / kWarps - shuffles - votes;
    const std::uint64_t scores = std::uint64_t(D / 16 * kB_c / 8);
    Question q{.situation = fmt::format("mma.cuh, D = {}: a warp has 16 queries, a tile has 64 keys. One mma.m16n8k16 "
                                        "multiplies [16, 16] by [16, 8].",
                                        D),
               .ask = "How many mma does a warp issue for one tile of keys?",
               .hint = "Cut S = Q K^T into pieces of 16 x 8, and its inner dimension into 16. Then the same for P V.",
               .tolerance = 0,
               .source = fmt::format("{}: what its warps do together for another tile, without ldmatrix, shuffles "
                                     "and the vote",
                                     kSource),
               .command = fmt::format("./ladder profile 6 --heads 1 --queries 64 --keys 128 --head-dim {} --dtype f16 "
                                      "--no-causal",
                                      D),
               .section = "A warp multiplies as a whole",
               .formula = double(2 * scores)};
    q.right(count(of_a_warp, "instruction"),
            fmt::format("{} for S: 8 pieces of 8 keys, D / 16 steps each. And {} for O: D / 8 pieces of 8 columns, 64 "
                        "/ 16 steps each. 2048 multiply-adds per instruction.",
                        scores, scores));
    q.wrong(count(scores, "instruction"), "That is one of the two products. P V takes as many as Q K^T.");
    q.wrong(count(2 * scores * kWarps, "instruction"),
            "That is the block's. Each of its four warps does its own 16 queries.");
    q.wrong(count(scores * 2 * 16, "instruction"),
            "That counts a query at a time. An mma takes all 16 of the warp at once.");
    return q;
}

Question wavefronts(Draw& draw) {
    const std::int64_t D = draw({32, 64, 96, 128});
    const auto per_read = [&](AttentionEntry entry) {
        const OfATile tile = of_a_tile(entry, D);
        return tile.read_wavefronts / tile.reads;
    };
    const bool whole = D % 64 == 0;  // rows begin in the same bank, or every second one does
    Question q{.situation = fmt::format("mma.cuh keeps tiles as they are, D = {} elements of 2 bytes to a row. One "
                                        "ldmatrix reads four matrices of 8 rows, 16 bytes each.",
                                        D),
               .ask = "How many wavefronts of shared memory does it take?",
               .hint = "32 banks of 4 bytes are 128 bytes. In which banks do rows 0, 1, 2, … of a matrix begin?",
               .tolerance = 0,
               .source = fmt::format("{}: the reads of another tile, and what they took", kSource),
               .command = fmt::format("./ladder profile 6 --heads 1 --queries 64 --keys 128 --head-dim {} --dtype f16 "
                                      "--no-causal",
                                      D),
               .section = "Predict the bank conflicts",
               .formula = double(4 * (whole ? 8 : 4))};
    q.right(count(per_read(mma_plain_forward), "wavefront"),
            whole ? fmt::format("A row has {} bytes, whole rounds of the banks, so all eight rows of a matrix lie in "
                                "the same four banks: eight passes for each of four matrices.",
                                2 * D)
                  : fmt::format("A row has {} bytes, so every second row begins in the same bank: four passes for each "
                                "of four matrices.",
                                2 * D));
    q.wrong(
        count(4, "wavefront"),
        "That is what it takes with swizzled rows: one pass per matrix, since its eight rows are 128 bytes, from all "
        "32 banks.");
    q.wrong(count(whole ? 16 : 32, "wavefront"),
            whole ? "That would be right if every second row began in other banks, as with 32 or 96 elements."
                  : "That would be right if all rows began in the same bank, as with 64 or 128 elements.");
    q.wrong(count(1, "wavefront"),
            "One instruction, but 512 bytes: a pass brings 128 at most. Four would be the least.");
    return q;
}

Question shared_bytes(Draw& draw) {
    struct Case {
        const char* device;
        std::int64_t D, B_c;
    };
    const Case on =
        draw({Case{"h100", 128, 64}, Case{"rtx4090", 128, 32}, Case{"rtx4090", 64, 64}, Case{"h100", 64, 128}});
    constexpr std::int64_t B_r = 128, stages = 2;
    const Measured run =
        measure(6, "mma_forward", {.heads = 1, .keys = 64, .head_dim = on.D, .dtype = torch::kFloat16, .causal = false},
                on.device);
    const std::uint64_t Q = B_r * on.D * 2, K = on.B_c * on.D * 2;
    Question q{.situation = fmt::format("mma_forward in float16, D = {}, with the limits of {}: B_r = {}, B_c = {}.",
                                        on.D, simt::device_profile(on.device).product, B_r, on.B_c),
               .ask = "How many bytes of shared memory does a block take?",
               .hint = "Which tiles lie there, and which of them twice? Which never lie there?",
               .source = run.source,
               .command = run.command,
               .section = "Copies under the products",
               .formula = double(Q + 2 * stages * K)};
    q.right(bytes(run.launch().launch.shared_bytes_per_block),
            fmt::format("Q_i has {} bytes, K_j and V_j {} each, in two stages. S_ij, P_ij and O_i are in registers.", Q,
                        K));
    q.wrong(bytes(Q + 2 * K),
            "With one stage the next tile could be copied only when everybody is done with this one. There are two, to "
            "be filled in turn.");
    q.wrong(bytes(Q + 2 * stages * K + B_r * on.B_c * 2),
            "P_ij does not go through shared memory here: the lane that holds a score is the one whose operand needs "
            "its weight.");
    q.wrong(bytes(2 * (Q + 2 * stages * K)),
            "Four bytes per element would be float32. Tiles have the type of the tensors.");
    return q;
}

Question resident_blocks(Draw& draw) {
    const char* device = draw({"rtx4090", "a100", "h100"});
    const std::int64_t D = 128;
    const simt::DeviceProfile& profile = simt::device_profile(device);
    const simt::ScopedCpuDevice imitated(simt::device_from(profile));
    const simt::LaunchLog log(simt::LaunchLog::Detail::bytes);
    const torch::Tensor x = at::ones({1, 1, 1, D}, torch::kFloat16);
    mma_plain_forward(x, x, x, {});
    const simt::LaunchRecord& launch = log.records().front();
    const simt::Occupancy fit =
        simt::occupancy(profile, {.threads = int(launch.block[0]), .shared_bytes = launch.shared_bytes_per_block});
    const std::int64_t needed = 3 * 64 * D * 2 + profile.reserved_shared_bytes_per_block;
    Question q{
        .situation = fmt::format("A block of mma.cuh has 128 threads and three tiles of 64 rows: 49152 bytes for D "
                                 "= {}. A multiprocessor of {} has {} bytes of shared memory and room for {} "
                                 "threads; CUDA keeps {} bytes of each block's for itself.",
                                 D, profile.product, profile.shared_bytes_per_multiprocessor,
                                 profile.max_threads_per_multiprocessor, profile.reserved_shared_bytes_per_block),
        .ask = "How many blocks does its shared memory hold at a time?",
        .hint = "Divide, and round down. A block's share of what CUDA keeps counts too.",
        .tolerance = 0,
        .source = fmt::format("{}: the bytes that its launch asked for, by the rules of NVIDIA's occupancy calculator",
                              kSource),
        .command = fmt::format("./ladder profile 6 --heads 1 --head-dim {} --dtype f16 --profile {}", D, device),
        .section = "Tiles for a head dimension and a device",
        .formula = double(profile.shared_bytes_per_multiprocessor / needed)};
    q.right(count(std::uint64_t(fit.blocks_by_shared_memory), "block"),
            fmt::format("{} / ({} + {}), rounded down.", profile.shared_bytes_per_multiprocessor,
                        launch.shared_bytes_per_block, profile.reserved_shared_bytes_per_block));
    q.wrong(count(std::uint64_t(fit.blocks_by_threads), "block"),
            "That many fit by their threads. The scarcest of the resources decides, and here that is not threads.");
    q.wrong(count(std::uint64_t(profile.shared_bytes_per_multiprocessor / (needed / 3)), "block"),
            "That counts one tile for a block. Q_i, K_j and V_j are all there at the same time.");
    q.wrong(count(std::uint64_t(profile.multiprocessors), "block"),
            "That is how many multiprocessors the device has. Each of them has shared memory of its own.");
    return q;
}

Question keys_read(Draw& draw) {
    const std::int64_t N = draw({256, 384, 512}), D = 64, B_r = 128;
    const Measured run =
        measure(6, "mma_forward", {.heads = 1, .keys = N, .head_dim = D, .dtype = torch::kBFloat16, .causal = false});
    const std::uint64_t K = N * D * 2;
    Question q{
        .situation = fmt::format("mma_forward without a mask on one head of N = {} tokens, D = 64, bfloat16. A block "
                                 "has {} queries: four warps with 32 rows each.",
                                 N, B_r),
        .ask = "How many bytes of K are read from global memory?",
        .hint = "Who needs all of K, and who shares what was fetched once?",
        .source = run.source,
        .command = run.command,
        .section = "What it moves",
        .formula = double(K * N / B_r)};
    q.right(
        bytes(run.read("K")),
        fmt::format("K has {} bytes, and each of {} blocks reads all of it into its shared memory, once for its four "
                    "warps.",
                    K, N / B_r));
    q.wrong(
        bytes(K * N / B_r * kWarps),
        "Warps do not fetch for themselves. All threads of a block copy a tile together, and each warp reads all of it "
        "from shared memory.");
    q.wrong(bytes(K * N / B_r * 2),
            "That is right with 64 queries per block, as in mma.cuh. Twice the rows per warp halve the reads, those of "
            "shared memory as well.");
    q.wrong(bytes(K),
            "Each block has shared memory of its own, and needs all keys. What several blocks read may come from L2, "
            "but it is read.");
    return q;
}

Question rounding(Draw& draw) {
    struct Case {
        double p, low, high;
    };
    const Case on = draw({Case{0.7, -70, 100}, Case{0.6, -60, 100}, Case{0.3, -30, 100}});
    const auto out = [&](torch::ScalarType dtype) {
        return mma_forward(column({1}, dtype), column({0, 1}, dtype), column({on.low, on.high}, dtype),
                           {.scale = std::log(on.p)})
            .out.item<double>();
    };
    const auto rounded = [](double x, torch::ScalarType dtype) { return at::full({}, x, dtype).item<double>(); };
    const double by_hand = (on.low + on.high * rounded(on.p, torch::kBFloat16)) / (1 + on.p);
    Question q{
        .situation = fmt::format("A row of two keys. Their weights are 1 and {}, their values {} and {}: exactly, O is "
                                 "0. bfloat16 has 8 bits, and its number next to {} is {:.10g}.",
                                 on.p, on.low, on.high, on.p, rounded(on.p, torch::kBFloat16)),
        .ask = "What does mma_forward return for O, in bfloat16?",
        .hint = "What is rounded before the second product, and is the sum l made of the rounded weights?",
        .tolerance = 0.02,
        .source = "mma_forward on the CPU machine",
        .command = fmt::format("{}c = lambda *x: torch.tensor(x).view(1, 1, -1, 1).bfloat16(); print(mma(c(1.), c(0., "
                               "1.), c({}., {}.), scale={:.9g})[0])\"",
                               kLoad, on.low, on.high, std::log(on.p)),
        .section = "Where it rounds",
        .formula = rounded(by_hand, torch::kBFloat16)};
    q.right(
        value(out(torch::kBFloat16)),
        fmt::format("({} + {} * {:.10g}) / (1 + {}): the weight is rounded where it meets V, and not where it joins l. "
                    "Relative to the values that is 2^-8 at most, as much as rounding V to bfloat16 may have cost.",
                    on.low, on.high, rounded(on.p, torch::kBFloat16), on.p));
    q.wrong(value(0), "mma adds in float32, but it multiplies operands of 16 bits: P is rounded before it meets V.");
    q.wrong(value(out(torch::kFloat16)), "That is float16's, which has 11 bits for a weight. bfloat16 has 8.");
    q.wrong(value(on.low + on.high * rounded(on.p, torch::kBFloat16)), "The sum still has to be divided by l.");
    return q;
}

}  // namespace

std::vector<Topic> questions() {
    return {{"6.lanes-of-a-row", "how many lanes share a row", lanes_of_a_row},
            {"6.lane-of-a-score", "which lane holds a score", lane_of_a_score},
            {"6.products", "how many mma a tile of keys takes", products},
            {"6.sum-of-a-lane", "what l is before lanes are added up", sum_of_a_lane},
            {"6.rounding", "what rounding P to 16 bits costs", rounding},
            {"6.wavefronts", "bank conflicts of ldmatrix on plain rows", wavefronts},
            {"6.shared-bytes", "what two stages take of shared memory", shared_bytes},
            {"6.keys-read", "how many bytes of K are read", keys_read},
            {"6.resident-blocks", "how many blocks a multiprocessor holds", resident_blocks}};
}

}  // namespace ladder::phase6_tensor_cores
