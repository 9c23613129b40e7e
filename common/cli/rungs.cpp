#include "common/cli/rungs.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "common/attention/machine.h"
#include "phase0_softmax/online_attention.h"
#include "phase0_softmax/softmax.h"
#include "phase1_naive/naive.h"
#include "phase2_fa1/fa1.h"
#include "phase3_fa2/fa2.h"
#include "phase4_causal/causal.h"
#include "phase5_decoding/decode.h"

namespace ladder::cli {
namespace {

using reference::Comparison;
using Outputs = std::vector<torch::Tensor>;

/// Per element: compare with the maximum, subtract it, exponentiate, add, divide.
constexpr double kSoftmaxFlops = 5;

Growth softmax_growth() {
    return {.law = "Θ(N²)", .source = "every score of an N x N matrix, a fixed number of times", .with_length = 2};
}

Rung softmax_rung(std::string kernel, std::string changes, int passes, const torch::Tensor& x,
                  torch::Tensor (*entry)(const torch::Tensor&), GlobalBytes bytes) {
    return {.phase = 0,
            .kernel = std::move(kernel),
            .changes = std::move(changes),
            .inputs = {{"x", x}},
            .run = [=] { return Outputs{entry(x)}; },
            .check = [=](const Outputs& outputs) { return reference::compare_softmax(outputs[0], x); },
            .bytes = bytes,
            .flops = kSoftmaxFlops * double(x.numel()),
            .growth = softmax_growth(),
            .tensor_bytes = {{"x", x.nbytes()}, {"y", x.nbytes()}},
            .repetitions = {{"x", double(passes), fmt::format("once in each of {} passes", passes)}}};
}

/// Pairs of a query and a key that it sees, in one head.
double visible_pairs(Mask mask, int64_t queries, int64_t keys) {
    if (mask == Mask::none) return double(queries) * double(keys);
    double pairs = 0;
    for (int64_t i = 0; i < queries; ++i)
        pairs += double(std::clamp<int64_t>(i + 1 + (mask == Mask::causal_bottom_right ? keys - queries : 0), 0, keys));
    return pairs;
}

/// Two matrix products, over the pairs that are seen.
double attention_flops(const torch::Tensor& q, const torch::Tensor& k, Mask mask) {
    return 4.0 * double(q.size(0) * q.size(1) * q.size(3)) * visible_pairs(mask, q.size(2), k.size(2));
}

std::map<std::string, std::uint64_t> attention_tensor_bytes(const torch::Tensor& q, const torch::Tensor& k) {
    const std::uint64_t rows = q.size(0) * q.size(1) * q.size(2), per_row = sizeof(float) * rows,
                        scores = rows * k.size(2) * q.element_size();
    return {{"Q", q.nbytes()},
            {"K", k.nbytes()},
            {"V", k.nbytes()},
            {"O", q.nbytes()},
            {"O (float32)", q.numel() * sizeof(float)},
            {"LSE", per_row},
            {"l", per_row},
            {"m", per_row},
            {"S", scores},
            {"P", scores}};
}

template <class Entry>
Rung attention_rung(int phase, std::string kernel, std::string changes, const RungInput& input,
                    const AttentionOptions& options, const Entry& entry, GlobalBytes bytes, Growth growth) {
    const auto [q, k, v] = std::tuple(input.q, input.k, input.v);
    return {.phase = phase,
            .kernel = std::move(kernel),
            .changes = std::move(changes),
            .inputs = {{"q", q}, {"k", k}, {"v", v}},
            .run =
                [=] {
                    const AttentionResult result = entry(q, k, v);
                    return Outputs{result.out, result.lse};
                },
            .check =
                [=](const Outputs& outputs) {
                    return reference::compare_attention({outputs[0], outputs[1]}, q, k, v, options);
                },
            .bytes = bytes,
            .flops = attention_flops(q, k, options.mask),
            .growth = std::move(growth),
            .tensor_bytes = attention_tensor_bytes(q, k)};
}

/// A block keeps B_r query rows, a number of its own, and all keys come past it.
Growth growth_with_query_tiles() {
    return {.law = "Θ(N² d² / M), M = Θ(B_r d)", .source = "Dao et al. 2022, Theorem 2", .with_length = 2};
}

Growth growth_with_whole_rows() {
    return {.law = "Θ(N² d / B_r)",
            .source = "K and V once for each B_r queries, fewer of them where whole rows fill the shared memory",
            .with_length = 2};
}

Growth growth_with_few_queries() {
    return {.law = "Θ(N d)", .source = "every key and value once for a few queries", .with_length = 1};
}

/// `input` with the few queries instead of all.
RungInput with_newest(RungInput input) {
    input.q = input.newest;
    return input;
}

std::vector<Rung> softmax_rungs(const RungInput& input) {
    const torch::Tensor& x = input.scores;
    const torch::Tensor long_rows = x.reshape({input.q.size(1), -1});
    const RungInput few = with_newest(input);
    // The plain kernel of block_softmax on every device: the passes below are those that its source makes.
    std::vector<Rung> rungs = {
        softmax_rung("safe_softmax",
                     "Three passes over each row: its maximum, the sum of the exponentials below it, the quotients. "
                     "Every score is read three times.",
                     3, x, safe_softmax, safe_softmax_bytes(x)),
        softmax_rung("online_softmax",
                     "Two passes: the maximum and the sum grow together, and the sum is rescaled whenever the maximum "
                     "moves. Every score is read twice.",
                     2, x, online_softmax, online_softmax_bytes(x)),
        softmax_rung("block_softmax",
                     "The pair (m, l) merges associatively, so a row can be cut into pieces: lanes, warps, a whole "
                     "block at work on one long row (here all scores of a head).",
                     2, long_rows, block_plain_softmax, block_plain_softmax_bytes(long_rows)),
        attention_rung(
            0, "online_attention",
            "One pass: the output is rescaled like the sum, so softmax(q K^T) V of one query row needs every key and "
            "value once, and no memory that grows with N. All later rungs grow from this one.",
            few, {}, [](const auto& q, const auto& k, const auto& v) { return online_attention(q, k, v); },
            online_attention_bytes(few.q, few.k, few.v), growth_with_few_queries())};
    const double rows_per_key_head = double(few.q.size(2) * few.q.size(1)) / double(few.k.size(1));
    for (const char* tensor : {"K", "V"})
        rungs.back().repetitions.push_back({tensor, rows_per_key_head, "once for each query row"});
    return rungs;
}

/// As many query rows per block as the device has shared memory for: up to the default.
int64_t fitting_block_rows(Scheme scheme, const RungInput& input) {
    const auto limit = std::size_t(device_limits(input.q.device()).shared_bytes_per_block_optin);
    const BlockedShape shape{.scheme = scheme, .type = tensor_argument("Q", input.q).type, .head_dim = input.q.size(3)};
    return std::clamp<int64_t>(largest_block_rows(shape, input.k.size(2), limit), 1, kDefaultBlockRows);
}

std::vector<Rung> naive_rungs(const RungInput& input) {
    const int64_t a_rows = fitting_block_rows(Scheme::q_blocked, input);
    const int64_t b_rows = fitting_block_rows(Scheme::qv_blocked, input);
    const auto rows_of = [](int64_t rows) {
        return rows == kDefaultBlockRows
                   ? std::string()
                   : fmt::format(" ({} query rows per block: {} would not fit this device.)", rows, kDefaultBlockRows);
    };
    std::vector<Rung> rungs = {
        attention_rung(
            1, "standard_attention",
            "Three kernels, S = q K^T, P = softmax(S), O = P V, with S and P in global memory: traffic that grows with "
            "the square of the length.",
            input, {}, [](const auto& q, const auto& k, const auto& v) { return standard_attention(q, k, v); },
            standard_attention_bytes(input.q, input.k, input.v),
            {.law = "Θ(N d + N²)", .source = "Dao et al. 2022, Theorem 2", .with_length = 2}),
        attention_rung(
            1, "q_blocked_attention",
            "Scheme A, one kernel: a block keeps its query rows, all keys, all values and whole rows of scores in "
            "shared memory. Nothing is spilled, and soon nothing fits: see ./ladder overflow." +
                rows_of(a_rows),
            input, {},
            [=](const auto& q, const auto& k, const auto& v) { return q_blocked_attention(q, k, v, {}, a_rows); },
            q_blocked_bytes(input.q, input.k, input.v, {}, a_rows), growth_with_whole_rows()),
        attention_rung(
            1, "qv_blocked_attention",
            "Scheme B: the values come in tiles. The keys and whole rows of scores stay, because this softmax must "
            "see all of a row." +
                rows_of(b_rows),
            input, {},
            [=](const auto& q, const auto& k, const auto& v) { return qv_blocked_attention(q, k, v, {}, b_rows); },
            qv_blocked_bytes(input.q, input.k, input.v, {}, b_rows), growth_with_whole_rows())};
    rungs.front().repetitions = {{"S", 3, "for its maximum, its sum and its quotients"}};
    return rungs;
}

std::vector<Rung> fa1_rungs(const RungInput& input) {
    // As published on every device: the law and the repetitions below are those of tiles that follow shared memory.
    Rung rung = attention_rung(
        2, "fa1_forward",
        "FlashAttention-1: phase 0's online softmax lets keys and values come in tiles, so shared memory no longer "
        "grows with the length. Key tiles are the outer loop; O, l and m travel to global memory and back at each "
        "step.",
        input, {}, [](const auto& q, const auto& k, const auto& v) { return fa1_plain_forward(q, k, v); },
        fa1_plain_bytes(input.q, input.k, input.v),
        {.law = "Θ(N² d² / M)", .source = "Dao et al. 2022, Theorem 2", .with_length = 2, .with_shared_memory = -1});
    const Fa1Tiles tiles =
        fa1_tiles(device_limits(input.q.device()), tensor_argument("Q", input.q).type, input.q.size(3));
    const int64_t key_tiles = (input.k.size(2) + tiles.B_c - 1) / tiles.B_c;
    const auto tiles_text = fmt::format("{} tiles of {} keys", key_tiles, tiles.B_c);
    rung.repetitions = {{"Q", double(key_tiles), "once for each of " + tiles_text}};
    for (const char* tensor : {"O", "O (float32)", "l", "m"})
        rung.repetitions.push_back({tensor, double(key_tiles - 1), "between any two of " + tiles_text});
    return {std::move(rung)};
}

std::vector<Rung> fa2_rungs(const RungInput& input) {
    return {attention_rung(
        3, "fa2_forward",
        "FlashAttention-2: the loops trade places. A block keeps its query rows, so O, l and m live in registers and "
        "are written once, and blocks along the sequence need nothing from each other.",
        input, {}, [](const auto& q, const auto& k, const auto& v) { return fa2_forward(q, k, v); },
        fa2_forward_bytes(input.q, input.k, input.v), growth_with_query_tiles())};
}

std::vector<Rung> causal_rungs(const RungInput& input) {
    const AttentionOptions options{.scale = {}, .mask = input.causal_mask};
    Rung rung = attention_rung(
        4, "causal_forward",
        "A query sees only what came before it. The key loop goes in stages: full tiles without a mask, tiles on the "
        "diagonal with one, tiles above it never loaded. The scale carries log2(e), so that exp2 serves.",
        input, options, [=](const auto& q, const auto& k, const auto& v) { return causal_forward(q, k, v, options); },
        causal_forward_bytes(input.q, input.k, input.v, options), growth_with_query_tiles());
    if (input.causal_mask != Mask::none)
        for (const char* tensor : {"K", "V"})
            rung.repetitions.push_back({tensor, {}, "each block skips the keys that none of its queries sees"});
    return {std::move(rung)};
}

std::vector<Rung> decoding_rungs(const RungInput& input) {
    const RungInput few = with_newest(input);
    const AttentionOptions attention{.scale = {}, .mask = input.decoding_mask};
    const DecodeOptions options{.attention = attention, .splits = input.splits};
    return {attention_rung(
        5, "flash_decode",
        "One new token against a cache of keys: too few queries to fill a GPU, so the keys are split over blocks, and "
        "a second kernel merges the partial results with phase 0's (m, l).",
        few, attention, [=](const auto& q, const auto& k, const auto& v) { return flash_decode(q, k, v, options); },
        flash_decode_bytes(few.q, few.k, few.v, options), growth_with_few_queries())};
}

}  // namespace

std::string phase_title(int phase) {
    constexpr const char* titles[kPhases] = {
        "softmax, safe and online",       "naive attention, and the wall it meets",
        "FlashAttention-1: keys outside", "FlashAttention-2: queries outside",
        "causal masks, in stages",        "decoding with split keys",
    };
    return titles[phase];
}

std::vector<Rung> rungs_of_phase(int phase, const RungInput& input) {
    switch (phase) {
        case 0:
            return softmax_rungs(input);
        case 1:
            return naive_rungs(input);
        case 2:
            return fa1_rungs(input);
        case 3:
            return fa2_rungs(input);
        case 4:
            return causal_rungs(input);
        case 5:
            return decoding_rungs(input);
        default:
            throw std::out_of_range(fmt::format("there is no phase {}; 0 to {} exist", phase, kPhases - 1));
    }
}

}  // namespace ladder::cli
