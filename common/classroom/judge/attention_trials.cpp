// Problems for kernels that compute attention of whole sequences.
//
// The suite: {"problem": "attention", "tiles": [B_r, B_c], "window": true, "softcap": true, "slopes": true,
//             "mask": "none" | "causal_bottom_right" | "causal_top_left" | "both", "garbage": true, "device": PROFILE,
//             "numbers": {name: value}, "longest": N, "one_tile": true, "one_key_at_a_time": true, "scores_kept": true,
//             "dtypes": [TYPE, …], "weights_rounded": true, "cancelling": true, "properties": […]}
//
// garbage            keys that no query sees hold NaN, and so do their values
// longest            one problem more, with as many keys: what the device just holds
// one_tile           never more than B_c keys
// one_key_at_a_time  the kernel has no tiles; the two sizes only say how large the problems are
// scores_kept        the kernel keeps scores in the type of Q before it takes their softmax
// dtypes             the types of Q, K and V, "float32", "float16" or "bfloat16": each problem has the next of them.
//                    If they are not given, all are of float32, and there is one more in float16
// weights_rounded    the kernel rounds weights to the type of V before it multiplies them with it, as tensor cores want
// cancelling         more problems, in which a row's weighted values all but cancel: what is left is as small as
//                    what rounding the weights would add
//
// Each property but `narrow`, `longest` and `cancelling` has a problem whose scores are about 100 in one row and about
// -100 in the next: exp(s) overflows in the one and is 0 in the other, so that without each row's own maximum no
// property comes out right.
//
// Among the sizes, `tile_keys` is how many keys have to be read for a head: for each tile of B_r queries, those in the
// tiles of B_c keys of which any of its queries sees any. `tiles_of_32` is how many tiles these are, of 32 keys each.

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "common/classroom/judge/examine_attention.h"
#include "common/classroom/judge/tensors.h"
#include "common/reference/inputs.h"

namespace ladder::classroom {
namespace {

using nlohmann::json;
using reference::AttentionCase, reference::Family;

Mask mask_named(const std::string& name) {
    if (name == "none") return Mask::none;
    if (name == "causal_bottom_right") return Mask::causal_bottom_right;
    if (name == "causal_top_left") return Mask::causal_top_left;
    throw std::invalid_argument("suite: mask is \"" + name +
                                "\"; none, causal_bottom_right, causal_top_left and both are known");
}

torch::ScalarType dtype_named(const std::string& name) {
    if (name == "float32") return torch::kFloat32;
    if (name == "float16") return torch::kFloat16;
    if (name == "bfloat16") return torch::kBFloat16;
    throw std::invalid_argument("suite: dtypes has \"" + name + "\"; float32, float16 and bfloat16 are known");
}

std::string words_for(const AttentionCase& problem, const Form& form, bool tiled) {
    std::string text = fmt::format("B {}, heads {}/{}, ", problem.batch, problem.query_heads, problem.kv_heads);
    text += tiled
                ? fmt::format("Sq {}, Sk {}, D {}", problem.query_length, problem.key_length, problem.head_dim)
                : fmt::format("{} {} of {} {}, D {}", problem.query_length, problem.query_length == 1 ? "row" : "rows",
                              problem.key_length, problem.key_length == 1 ? "score" : "scores", problem.head_dim);
    if (problem.dtype == torch::kFloat16) text += ", float16";
    if (problem.dtype == torch::kBFloat16) text += ", bfloat16";
    if (problem.family != Family::normal) text += fmt::format(", {}", reference::name_of(problem.family));
    if (form.mask != Mask::none)
        text += form.mask == Mask::causal_top_left ? ", causal (top left)" : ", causal (bottom right)";
    if (form.window) text += fmt::format(", window {}", *form.window);
    if (form.softcap) text += fmt::format(", softcap {}", *form.softcap);
    return text;
}

struct NeededTiles {
    int64_t count = 0, keys = 0;
};

/// See above; `seen` [Sq, Sk].
NeededTiles needed_tiles(const torch::Tensor& seen, int64_t B_r, int64_t B_c) {
    NeededTiles needed;
    for (int64_t i = 0; i < seen.size(0); i += B_r)
        for (int64_t j = 0; j < seen.size(1); j += B_c) {
            const int64_t rows = std::min(B_r, seen.size(0) - i), columns = std::min(B_c, seen.size(1) - j);
            if (!seen.narrow(0, i, rows).narrow(1, j, columns).any().item<bool>()) continue;
            ++needed.count;
            needed.keys += columns;
        }
    return needed;
}

/// All queries of a head become its first one, and V loses what that one's weights find in it, but for its own
/// rounding. As many key heads as query heads.
void cancel_values(const reference::AttentionInputs& inputs, double scale) {
    inputs.q.copy_(inputs.q.narrow(2, 0, 1).expand_as(inputs.q).clone());
    const torch::Tensor q = inputs.q.narrow(2, 0, 1).to(torch::kFloat64), k = inputs.k.to(torch::kFloat64),
                        v = inputs.v.to(torch::kFloat64);
    const torch::Tensor weights = at::softmax(at::matmul(q, k.transpose(-1, -2)) * scale, -1);
    const torch::Tensor found = at::matmul(weights, v) / weights.pow(2).sum(-1, true);
    inputs.v.copy_(v - at::matmul(weights.transpose(-1, -2), found));
}

/// Moves each row's scores by 100, up and down by turns, which changes no weight. `factor` is what a score is divided
/// by.
void move_scores(const reference::AttentionInputs& inputs, double factor) {
    const torch::Tensor turn = at::arange(inputs.q.size(2)).remainder(2) * -2 + 1;
    inputs.q.select(3, 0).copy_((turn * 100 * factor).expand({inputs.q.size(0), inputs.q.size(1), -1}));
    inputs.k.select(3, 0).fill_(1);
}

class Maker {
  public:
    Maker(const json& suite, std::uint64_t seed)
        : suite_(suite), values_(seed), B_r(suite.at("tiles").at(0)), B_c(suite.at("tiles").at(1)) {
        if (!suite.contains("dtypes")) return;
        dtypes_.clear();
        for (const json& name : suite.at("dtypes")) dtypes_.push_back(dtype_named(name));
        if (dtypes_.empty()) throw std::invalid_argument("suite: dtypes is empty; it takes one type or more");
    }

    std::vector<Trial> all() {
        one_tile();
        if (!only_one_tile_) several_tiles();
        ragged();
        heads();
        extremes();
        if (!suite_.contains("dtypes")) float16();
        if (suite_.value("cancelling", false)) cancelling();
        if (suite_.value("window", false)) narrow();
        if (suite_.contains("longest")) longest();
        return std::move(trials_);
    }

  private:
    void one_tile() {
        add("one_tile",
            {.query_length = draw_(2, 6), .key_length = draw_(2, std::min<int64_t>(8, B_c)), .head_dim = 32});
        add("one_tile", {.query_length = 1, .key_length = 1, .head_dim = 32});
        add_far_from_0("one_tile", {.query_length = 3, .key_length = 4, .head_dim = 32});
    }
    void several_tiles() {
        const int64_t queries = B_r;
        for (const Family family : {Family::normal, Family::rising_scores, Family::falling_scores})
            add("several_tiles",
                {.query_length = queries, .key_length = draw_(3, 4) * B_c, .head_dim = 32, .family = family});
        add_far_from_0("several_tiles", {.query_length = 2 * B_r, .key_length = 2 * B_c, .head_dim = 64});
    }
    void ragged() {
        add("ragged",
            {.query_length = B_r + draw_(1, B_r - 1), .key_length = 2 * B_c + draw_(1, B_c - 1), .head_dim = 32});
        add_far_from_0("ragged",
                       {.query_length = draw_(1, B_r - 1), .key_length = 1 + B_c, .head_dim = draw_(9, 15) * 2 + 1});
        add("ragged", {.query_length = B_r + 1,
                       .key_length = draw_(1, B_c - 1),
                       .head_dim = draw_(17, 31) * 2 + 1,
                       .family = Family::index_ramp});
    }
    void heads() {
        add("heads", {.batch = 2,
                      .query_heads = 4,
                      .kv_heads = 2,
                      .query_length = draw_(5, 20),
                      .key_length = B_c + draw_(1, 9),
                      .head_dim = 32});
        add_far_from_0("heads", {.batch = draw_(2, 3),
                                 .query_heads = 3,
                                 .kv_heads = 1,
                                 .query_length = draw_(5, 20),
                                 .key_length = draw_(5, 20),
                                 .head_dim = 24});
    }
    void extremes() {
        for (const Family family : {Family::one_huge_logit, Family::scores_near_minus_1000, Family::offset_values})
            add("extremes",
                {.query_heads = 2,  // the huge logit is the last key's in one head, the seventh's in the other
                 .kv_heads = 2,
                 .query_length = draw_(8, 20),
                 .key_length = 2 * B_c + draw_(1, 5),
                 .head_dim = 32,
                 .family = family});
        if (only_one_tile_ || suite_.value("mask", "none") != "none")
            return;  // a row that sees such keys only would be 0 / 0
        begins_with_minus_infinity_ = true;
        add("extremes", {.query_length = draw_(4, 12), .key_length = 2 * B_c + draw_(1, 5), .head_dim = 32});
        begins_with_minus_infinity_ = false;
    }
    void float16() {
        add_far_from_0("float16", {.query_heads = 2,
                                   .kv_heads = 1,
                                   .query_length = draw_(5, B_r + 9),
                                   .key_length = B_c + draw_(1, 30),
                                   .head_dim = 32,
                                   .dtype = torch::kFloat16});
        if (suite_.value("scores_kept", false))  // in 16 bits, which hold these scores exactly
            add("float16", {.query_length = 9,
                            .key_length = B_c + 7,
                            .head_dim = 32,
                            .dtype = torch::kFloat16,
                            .family = Family::scores_near_minus_1000});
    }
    void cancelling() {
        values_cancel_ = true;
        for (const int64_t keys : {draw_(9, 20), B_c + draw_(1, 9)})
            add("cancelling",
                {.query_heads = 2, .kv_heads = 2, .query_length = draw_(5, 20), .key_length = keys, .head_dim = 32});
        values_cancel_ = false;
    }
    void narrow() {
        for (const int64_t window : {int64_t{1}, draw_(2, 7)}) {
            window_ = window;
            add("narrow", {.query_length = B_r + draw_(1, 9), .key_length = B_r + 3 * B_c, .head_dim = 32});
        }
        window_ = {};
    }

    void longest() { add("longest", {.query_length = 2 * B_r, .key_length = suite_.at("longest"), .head_dim = 32}); }

    bool wanted(const std::string& property) const {
        if (!suite_.contains("properties")) return true;
        const json& properties = suite_.at("properties");
        return std::ranges::find(properties, json(property)) != properties.end();
    }

    /// Scores of about 100 and -100, in rows by turns, where they are not cut off at a few, nor kept in 16 bits.
    void add_far_from_0(const std::string& property, const AttentionCase& problem) {
        far_from_0_ = !suite_.value("softcap", false) &&
                      !(suite_.value("scores_kept", false) && problem.dtype == torch::kFloat16);
        add(property, problem);
        far_from_0_ = false;
    }

    void add(const std::string& property, AttentionCase problem) {
        if (!wanted(property)) return;
        if (only_one_tile_) problem.key_length = std::min(problem.key_length, B_c);
        const std::string mask = suite_.value("mask", "none");
        if (mask != "both") return add(property, problem, mask_named(mask));
        add(property, problem, Mask::causal_bottom_right);
        add(property, problem, Mask::causal_top_left);
    }

    void add(const std::string& property, AttentionCase problem, Mask mask) {
        problem.seed = std::uint64_t(values_(1, 1'000'000'000));
        if (problem.dtype == torch::kFloat32) problem.dtype = dtypes_[trials_.size() % dtypes_.size()];
        const reference::AttentionInputs inputs = reference::make_inputs(problem, torch::kCPU);
        if (begins_with_minus_infinity_) {
            inputs.q.select(3, 0).abs_().add_(0.1);
            inputs.k.slice(2, 0, B_c).select(3, 0).fill_(-std::numeric_limits<double>::infinity());
        }
        if (far_from_0_) move_scores(inputs, std::sqrt(double(problem.head_dim)));
        if (values_cancel_) cancel_values(inputs, float(1.0 / std::sqrt(double(problem.head_dim))));
        AttentionQuestion question;
        question.q = inputs.q;
        question.k = inputs.k;
        question.v = inputs.v;
        question.rows_per_tile = tiled_ ? B_r : 0;
        question.keys_per_tile = tiled_ ? B_c : 1;
        question.scores_kept = suite_.value("scores_kept", false);
        question.weights_rounded = suite_.value("weights_rounded", false);
        Form& form = question.form;
        form.scale = double(float(1.0 / std::sqrt(double(problem.head_dim))));
        form.mask = mask;

        Trial trial{.property = tiled_                        ? property
                                : property == "one_tile"      ? "few_scores"
                                : property == "several_tiles" ? "many_scores"
                                                              : property};
        trial.problem = empty_problem(suite_.value("device", "rtx4090"));
        trial.sizes = {{"B", problem.batch},
                       {"Hq", problem.query_heads},
                       {"Hkv", problem.kv_heads},
                       {"Sq", problem.query_length},
                       {"Sk", problem.key_length},
                       {"D", problem.head_dim},
                       {"element", inputs.q.element_size()}};
        if (suite_.value("window", false)) {
            form.window = window_.value_or(draw_(B_c / 2, 3 * B_c));
            trial.sizes["W"] = *form.window;
            add_number(trial.problem, "window", double(*form.window));
        }
        const torch::Tensor seen = sight(problem.query_length, problem.key_length, form)[0][0];
        trial.sizes["tile_keys"] = needed_tiles(seen, B_r, B_c).keys;
        trial.sizes["tiles_of_32"] = needed_tiles(seen, B_r, 32).count;
        torch::Tensor k = inputs.k, v = inputs.v;
        const torch::Tensor unseen = seen.any(0).logical_not().view({1, 1, -1, 1});
        const bool garbage = suite_.value("garbage", false) && unseen.any().item<bool>();
        if (garbage) {
            k = k.masked_fill(unseen, std::numeric_limits<double>::quiet_NaN());
            v = v.masked_fill(unseen, std::numeric_limits<double>::quiet_NaN());
        }
        add_input(trial.problem, "Q", inputs.q);
        add_input(trial.problem, "K", k);
        add_input(trial.problem, "V", v);
        if (suite_.value("softcap", false)) {
            form.softcap = double(draw_(2, 30)) / 4;  // a float holds it exactly
            add_number(trial.problem, "softcap", *form.softcap);
        }
        if (suite_.value("slopes", false)) {
            form.slopes = at::pow(2.0, -(at::arange(problem.query_heads) + double(draw_(1, 4)))).to(torch::kFloat32);
            add_input(trial.problem, "slopes", *form.slopes);
        }
        add_number(trial.problem, "scale", form.scale);
        add_number(trial.problem, "mask", double(mask));
        const json numbers = suite_.value("numbers", json::object());
        for (const auto& [name, value] : numbers.items()) add_number(trial.problem, name, value.get<double>());
        add_output(trial.problem, "O", inputs.q.sizes(), problem.dtype);
        add_output(trial.problem, "LSE", inputs.q.sizes().slice(0, 3), torch::kFloat32);

        trial.name = words_for(problem, form, tiled_) + (garbage ? ", NaN in keys that no query sees" : "");
        if (values_cancel_) trial.name += ", values that cancel";
        if (far_from_0_) trial.name += ", scores about 100 and -100";
        if (begins_with_minus_infinity_)
            trial.name += tiled_ ? ", every score of the first tile is -inf"
                                 : fmt::format(", the first {} scores of each row are -inf", B_c);
        question.garbage = garbage;
        trial.examine = [question, asked = trial.problem](const Message& reply) {
            const Attended result{output_of(asked, reply, 0), output_of(asked, reply, 1)};
            return examine_attention(question, result);
        };
        trials_.push_back(std::move(trial));
    }

    const json& suite_;
    Draw draw_{kSizes}, values_;
    const int64_t B_r, B_c;
    const bool tiled_ = !suite_.value("one_key_at_a_time", false), only_one_tile_ = suite_.value("one_tile", false);
    std::optional<int64_t> window_;
    std::vector<torch::ScalarType> dtypes_{torch::kFloat32};
    bool begins_with_minus_infinity_ = false;  // every score of the first B_c keys
    bool far_from_0_ = false;                  // scores are
    bool values_cancel_ = false;               // all rows of Q are alike, and their weights times V nearly 0
    std::vector<Trial> trials_;
};

}  // namespace

std::vector<Trial> attention_trials(const json& suite, std::uint64_t seed) { return Maker(suite, seed).all(); }

}  // namespace ladder::classroom
