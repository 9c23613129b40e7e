// Problems for decoding: few queries, a cache with a length for each sequence.
//
// The suite: {"problem": "decode", "tile": keys that a block takes in one step, "splits": true, "page": rows of a page,
//             "device": PROFILE}
//
// With "page", K and V are pages [pages, Hkv, page, D], and "page_table" [B, …] (int32) names the pages of each
// sequence in order; entries beyond a sequence's length are -1. Among the sizes, `pages` is how many of them the
// sequences use, and `keys` how many keys they have.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/classroom/judge/examine_attention.h"
#include "common/classroom/judge/tensors.h"
#include "common/reference/inputs.h"
#include "phase5_decoding/rung/judge/problems.h"

namespace ladder::classroom::phase5_decoding {
namespace {

using nlohmann::json;
using reference::Family;

struct Shape {
    std::string property;
    int64_t batch = 1, query_heads = 2, kv_heads = 2, head_dim = 32;
    std::vector<int64_t> lengths = {};
    int64_t splits = 1;
    Family family = Family::normal;
    torch::ScalarType dtype = torch::kFloat32;
};

/// The cache cut into pages, scattered, with NaN wherever no sequence has a key.
struct Pages {
    torch::Tensor k, v, table;
};

Pages paged(const torch::Tensor& k, const torch::Tensor& v, const std::vector<int64_t>& lengths, int64_t page,
            Draw& draw) {
    const int64_t batch = k.size(0), most = (k.size(2) + page - 1) / page, pages = batch * most + 3;
    std::vector<int64_t> order(static_cast<std::size_t>(pages));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t n = order.size(); n-- > 1;) std::swap(order[n], order[std::size_t(draw(0, int64_t(n)))]);
    const auto nan =
        at::full({pages, k.size(1), page, k.size(3)}, std::numeric_limits<double>::quiet_NaN(), k.options());
    Pages result{nan, nan.clone(), at::full({batch, most}, -1, torch::kInt32)};
    auto next = order.begin();
    for (int64_t b = 0; b < batch; ++b)
        for (int64_t first = 0, n = 0; first < lengths[std::size_t(b)]; first += page, ++n) {
            const int64_t rows = std::min(page, lengths[std::size_t(b)] - first), chosen = *next++;
            result.k[chosen].narrow(1, 0, rows).copy_(k[b].narrow(1, first, rows));
            result.v[chosen].narrow(1, 0, rows).copy_(v[b].narrow(1, first, rows));
            result.table[b][n] = chosen;
        }
    return result;
}

std::vector<Trial> decode_trials(const json& suite, std::uint64_t seed) {
    Draw draw(kSizes), values(seed);
    const int64_t tile = suite.value("tile", 128), page = suite.value("page", 0);
    const bool splits = suite.value("splits", true);
    std::vector<Trial> trials;
    const auto add = [&](const Shape& shape) {
        const int64_t capacity = std::max<int64_t>(1, *std::ranges::max_element(shape.lengths));
        const reference::AttentionInputs inputs =
            reference::make_inputs({.batch = shape.batch,
                                    .query_heads = shape.query_heads,
                                    .kv_heads = shape.kv_heads,
                                    .query_length = 1,
                                    .key_length = capacity,
                                    .head_dim = shape.head_dim,
                                    .dtype = shape.dtype,
                                    .family = shape.family,
                                    .seed = std::uint64_t(values(1, 1'000'000'000))},
                                   torch::kCPU);
        const torch::Tensor lengths = at::tensor(shape.lengths, torch::kInt64);
        AttentionQuestion question;
        question.q = inputs.q;
        question.k = inputs.k;
        question.v = inputs.v;
        question.keys_per_tile = tile;
        question.form.scale = double(float(1.0 / std::sqrt(double(shape.head_dim))));
        question.form.lengths = lengths;

        Trial trial{.property = shape.property};
        trial.problem = empty_problem(suite.value("device", "rtx4090"));
        add_input(trial.problem, "Q", inputs.q);
        if (page > 0) {
            const Pages pages = paged(inputs.k, inputs.v, shape.lengths, page, values);
            add_input(trial.problem, "K", pages.k);
            add_input(trial.problem, "V", pages.v);
            add_input(trial.problem, "page_table", pages.table);
        } else {
            const auto beyond = at::arange(capacity).view({1, 1, -1, 1}) >= lengths.view({-1, 1, 1, 1});
            add_input(trial.problem, "K", inputs.k.masked_fill(beyond, std::numeric_limits<double>::quiet_NaN()));
            add_input(trial.problem, "V", inputs.v.masked_fill(beyond, std::numeric_limits<double>::quiet_NaN()));
        }
        add_input(trial.problem, "kv_lengths", lengths.to(torch::kInt32));
        add_number(trial.problem, "scale", question.form.scale);
        add_number(trial.problem, "mask", 0);
        add_number(trial.problem, "splits", double(shape.splits));
        add_output(trial.problem, "O", inputs.q.sizes(), shape.dtype);
        add_output(trial.problem, "LSE", inputs.q.sizes().slice(0, 3), torch::kFloat32);
        trial.sizes = {{"B", shape.batch},
                       {"Hq", shape.query_heads},
                       {"Hkv", shape.kv_heads},
                       {"Sq", 1},
                       {"Sk", capacity},
                       {"D", shape.head_dim},
                       {"splits", shape.splits},
                       {"keys", std::accumulate(shape.lengths.begin(), shape.lengths.end(), int64_t{0})},
                       {"element", inputs.q.element_size()}};
        if (page > 0) {
            int64_t used = 0;
            for (const int64_t length : shape.lengths) used += (length + page - 1) / page;
            trial.sizes["pages"] = used;
        }
        trial.name = fmt::format(
            "B {}, heads {}/{}, keys up to {}, D {}, splits {}{}{}", shape.batch, shape.query_heads, shape.kv_heads,
            capacity, shape.head_dim, shape.splits, shape.dtype == torch::kFloat16 ? ", float16" : "",
            shape.family == Family::normal ? "" : fmt::format(", {}", reference::name_of(shape.family)));
        if (page > 0) trial.name += fmt::format(", pages of {} keys, NaN where no sequence has a key", page);
        trial.examine = [question, asked = trial.problem](const Message& reply) {
            return examine_attention(question, {output_of(asked, reply, 0), output_of(asked, reply, 1)});
        };
        trials.push_back(std::move(trial));
    };
    const int64_t several = splits ? draw(3, 6) : 1;
    add({.property = "one_tile", .lengths = {draw(2, std::min<int64_t>(tile, 20))}});
    add({.property = "one_tile", .lengths = {1}});
    add({.property = "several_tiles", .lengths = {3 * tile + draw(1, tile - 1)}});
    add({.property = "several_tiles", .lengths = {2 * tile}, .family = Family::rising_scores});
    if (splits) {
        add({.property = "several_splits", .lengths = {4 * tile + draw(1, tile)}, .splits = several});
        add({.property = "several_splits", .lengths = {7 * tile}, .splits = 7, .family = Family::falling_scores});
        add({.property = "empty", .lengths = {tile / 2}, .splits = several});
    }
    add({.property = "heads", .query_heads = 8, .kv_heads = 2, .lengths = {tile + draw(1, 30)}, .splits = several});
    add({.property = "heads", .query_heads = 3, .kv_heads = 1, .head_dim = 24, .lengths = {draw(5, 40)}});
    add({.property = "lengths", .batch = 3, .lengths = {draw(1, 9), 2 * tile + draw(1, 9), 0}, .splits = several});
    add({.property = "extremes", .lengths = {tile + 9}, .splits = several, .family = Family::one_huge_logit});
    add({.property = "extremes", .lengths = {tile + 9}, .splits = several, .family = Family::scores_near_minus_1000});
    add({.property = "float16",
         .query_heads = 4,
         .kv_heads = 1,
         .lengths = {tile + draw(1, 30)},
         .splits = several,
         .dtype = torch::kFloat16});
    return trials;
}

}  // namespace

ProblemKind decode_problems() {
    return {.name = "decode",
            .trials = decode_trials,
            .titles = {{"several_splits", "several splits"},
                       {"empty", "parts that saw no key"},
                       {"lengths", "lengths of sequences"}}};
}

}  // namespace ladder::classroom::phase5_decoding
