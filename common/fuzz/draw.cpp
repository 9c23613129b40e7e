#include "common/fuzz/draw.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/attention/check.h"
#include "common/fuzz/bad_calls.h"
#include "common/fuzz/random.h"
#include "common/simt/device/device_profile.h"

namespace ladder::fuzz {
namespace {

using reference::AttentionCase, reference::Family, reference::Layout;

/// Most mistakes with lengths show beside the edge of a tile, and tiles are powers of two.
std::int64_t draw_length(Random& random, std::int64_t longest) {
    const std::int64_t way = random.below(4);
    if (way == 0) return random.between(1, std::min<std::int64_t>(longest, 9));
    if (way == 1) return random.between(1, longest);
    std::int64_t tile = std::int64_t{16} << random.below(6);  // to 512
    while (tile > longest) tile /= 2;
    const std::int64_t tiles = random.between(1, 3), beyond = random.between(-1, 1);
    return std::clamp<std::int64_t>(tiles * tile + beyond, 1, longest);
}

std::int64_t draw_head_dim(Random& random) {
    switch (random.below(4)) {
        case 0:
            return random.pick({1, 2, 3, 5, 7, 31, 33, 63, 65, 127, 129, 255});
        case 1:  // 48, 80, 96, 112, 160, 192, 200 and others
            return 8 * random.between(1, kMaxHeadDim / 8);
        case 2:
            return random.between(1, kMaxHeadDim);
        default:
            return std::int64_t{16} << random.below(5);
    }
}

std::int64_t scores_of(const AttentionCase& c) { return c.batch * c.query_heads * c.query_length * c.key_length; }

/// Draws sizes anew, each smaller than before, until the problem is quick enough.
void bound_work(Random& random, const Entry& entry, AttentionCase& c) {
    std::int64_t group = c.query_heads / c.kv_heads;
    while (reference::work(c) > entry.most_work || scores_of(c) > entry.most_scores) {
        const std::array sizes{&c.batch, &c.kv_heads, &group, &c.query_length, &c.key_length, &c.head_dim};
        std::int64_t& size = *random.pick(sizes);
        if (size > 1) size = draw_length(random, size - 1);
        c.query_heads = c.kv_heads * group;
    }
}

/// These divide by the scale, to make scores of a certain size.
bool solves_for_scale(Family family) {
    return family != Family::normal && family != Family::equal_scores && family != Family::offset_values &&
           family != Family::tiny;
}

// Standard deviations, of normal q and k. Float32 tells neighbouring scores apart up to 2^24, 16 deviations away.
constexpr double kWidestScores = 0x1p20, kWidestScoresIn16Bits = 8.0;
constexpr double kSmallestDivisor = 0.0625;  // scale of a family that divides by it

bool is_decidable_scale(const AttentionCase& c, double scale) {
    const double widest = c.dtype == torch::kFloat32 ? kWidestScores : kWidestScoresIn16Bits;
    if (std::abs(scale) * std::sqrt(double(c.head_dim)) > widest) return false;
    return !solves_for_scale(c.family) || scale >= kSmallestDivisor;
}

double draw_scale(Random& random, const AttentionCase& c) {
    double scale = solves_for_scale(c.family)
                       ? random.pick({kSmallestDivisor, 0.125, 0.3, 1.0})
                       : random.pick({0.0, 1e-30, 1e-6, 0.01, 0.3, 1.0, 8.0, 1e3, -0.01, -0.3, -8.0, -1e3});
    while (!is_decidable_scale(c, scale)) scale /= 2;
    return scale;
}

bool weights_stay_above_zero(const AttentionCase& c) {
    const bool ordinary = c.family == Family::normal || c.family == Family::offset_values;
    return !c.options.scale &&
           ((ordinary && c.head_dim >= 16) || c.family == Family::tiny || c.family == Family::equal_scores);
}

bool rounds_to_16_bits(const Entry& entry, const AttentionCase& c) {
    return entry.rounds_scores && c.dtype != torch::kFloat32;
}

/// Rows that are not rounded alike, as those are whose queries lie in the same memory.
std::int64_t different_rows(const AttentionCase& c) {
    return (c.layouts.q == Layout::expanded_batch ? 1 : c.batch) *
           (c.layouts.q == Layout::expanded_heads ? 1 : c.query_heads) * c.query_length;
}

bool has_enough_rows(const Entry& entry, const AttentionCase& c) {
    constexpr std::int64_t kRows = 64, kResults = 1024;
    const std::int64_t rows = different_rows(c);
    return !rounds_to_16_bits(entry, c) || (rows >= kRows && rows * c.head_dim >= kResults);
}

constexpr std::int64_t kRoundedResults = 64;

bool has_enough_results(const Entry& entry, const AttentionCase& c) {
    if (!entry.rounds_weights || c.dtype == torch::kFloat32) return true;
    // With one column a slope of scores is all that a query has: every row is the same.
    const bool rows_alike =
        c.head_dim == 1 && (c.family == Family::rising_scores || c.family == Family::falling_scores);
    return !rows_alike && different_rows(c) * c.head_dim >= kRoundedResults;
}

double scale_of(const AttentionCase& c) { return c.options.scale.value_or(1.0 / std::sqrt(double(c.head_dim))); }

/// The power of two next to x, on the side of 0; 0 stays.
double power_of_two_below(double x) {
    return x == 0.0 ? x : std::copysign(std::exp2(std::floor(std::log2(std::abs(x)))), x);
}

bool roundings_differ(const Entry& entry, const AttentionCase& c) {
    return rounds_to_16_bits(entry, c) && power_of_two_below(scale_of(c)) != scale_of(c);
}

bool equal_terms_add_up(const Entry& entry, const AttentionCase& c) {
    constexpr std::int64_t kKeys = 256;
    return entry.adds_keys_in_turn && c.dtype == torch::kFloat32 && c.family == Family::index_ramp &&
           c.key_length > kKeys;
}

NonFinite draw_non_finite(Random& random, const Entry& entry, const AttentionCase& c) {
    using Argument = NonFinite::Argument;
    NonFinite drawn;
    if (entry.form == Form::softmax) {
        drawn.index = {0, 0, random.below(c.query_length), random.below(c.key_length)};
    } else {
        drawn.argument = weights_stay_above_zero(c) ? random.pick({Argument::q, Argument::k, Argument::v})
                                                    : random.pick({Argument::q, Argument::k});
        const bool in_q = drawn.argument == Argument::q;
        drawn.index = {random.below(c.batch), random.below(in_q ? c.query_heads : c.kv_heads),
                       random.below(in_q ? c.query_length : c.key_length), random.below(c.head_dim)};
    }
    drawn.value =
        random.pick({NonFinite::Value::nan, NonFinite::Value::plus_infinity, NonFinite::Value::minus_infinity});
    return drawn;
}

std::vector<std::int64_t> draw_kv_lengths(Random& random, const AttentionCase& c) {
    std::vector<std::int64_t> lengths;
    for (std::int64_t b = 0; b < c.batch; ++b)
        lengths.push_back(random.one_in(8) ? 0 : random.one_in(4) ? c.key_length : draw_length(random, c.key_length));
    return lengths;
}

void draw_shape(Random& random, const Entry& entry, AttentionCase& c) {
    if (entry.form == Form::softmax) {
        c.head_dim = 16;
    } else {
        c.batch = random.pick({1, 1, 2, 3, 5});
        c.kv_heads = random.pick({1, 1, 2, 3});
        c.query_heads = c.kv_heads * random.pick({1, 1, 1, 2, 3, 4, 8, 9});
        c.head_dim = std::min(draw_head_dim(random), entry.widest_head);
    }
    // Decoding is about one query token, or a few.
    c.query_length = entry.form == Form::decode && random.one_in(2) ? random.pick({1, 1, 2, 3})
                                                                    : draw_length(random, entry.longest_query);
    c.key_length = draw_length(random, entry.longest_key);
    const bool square =
        (entry.form == Form::attention || entry.form == Form::blocked || entry.form == Form::eight_bits ||
         entry.form == Form::shared || entry.form == Form::backward) &&
        random.one_in(4);
    if (square && c.query_length <= entry.longest_key) c.key_length = c.query_length;
    bound_work(random, entry, c);
}

Property draw_property(Random& random, const Entry& entry, const Problem& p) {
    if (!entry.repeats) return Property::none;
    // The plan for the splits, or the choice of a kernel, may look at the whole batch, and another rounds otherwise.
    const bool may_choose =
        (entry.chooses_by_size && p.attention.dtype == torch::kFloat32) || entry.form == Form::shared;
    const bool rounds_alike = !may_choose && (entry.form != Form::decode || p.splits);
    switch (random.below(3)) {
        case 0:
            return rounds_alike && entry.form != Form::softmax && p.attention.batch > 1
                       ? Property::ignores_batch_neighbours
                       : Property::repeats_bitwise;
        case 1:
            return entry.form == Form::decode ? Property::ignores_splits : Property::repeats_bitwise;
        default:
            return Property::repeats_bitwise;
    }
}

Problem draw_for(Random& random, const Entry& entry) {
    constexpr std::array kFamilies{
        Family::scores_near_minus_1000, Family::one_huge_logit, Family::equal_scores,  Family::index_ramp,
        Family::offset_values,          Family::tiny,           Family::rising_scores, Family::falling_scores};
    Problem p;
    AttentionCase& c = p.attention;
    draw_shape(random, entry, c);
    for (Layout* layout : {&c.layouts.q, &c.layouts.k, &c.layouts.v})
        if (random.one_in(2)) *layout = random.pick(reference::kLayouts);
    c.dtype = random.pick(entry.dtypes);
    if (!has_enough_rows(entry, c)) c.dtype = torch::kFloat32;
    c.family = random.one_in(2) ? Family::normal : random.pick(kFamilies);
    if (equal_terms_add_up(entry, c)) c.family = Family::normal;
    if (!has_enough_results(entry, c)) {
        const std::int64_t rows = different_rows(c);
        c.head_dim = std::max<std::int64_t>(2, (kRoundedResults + rows - 1) / rows);
    }
    c.options.mask = random.pick(entry.masks);
    if (entry.form != Form::softmax && random.one_in(4)) c.options.scale = draw_scale(random, c);
    if (roundings_differ(entry, c)) c.options.scale = power_of_two_below(scale_of(c));
    c.seed = std::uint64_t(random.below(1'000'000));

    if (entry.form == Form::blocked && !random.one_in(4)) p.block_rows = draw_length(random, 200);
    if (entry.form == Form::decode) {
        if (!random.one_in(3)) p.splits = random.one_in(2) ? random.between(1, 4) : random.between(1, 20);
        if (!random.one_in(3)) p.kv_lengths = draw_kv_lengths(random, c);
    }
    if (entry.form == Form::eight_bits) p.eight_bits = draw_eight_bits(random, c);
    if (entry.form == Form::shared)
        p.sharing = {.ranks = int(random.pick({1, 2, 2, 3, 3, 4, 5, 8})), .zigzag = random.one_in(2)};
    // The oracle of gradients takes finite numbers alone.
    if (entry.form != Form::backward && random.one_in(8)) p.non_finite = draw_non_finite(random, entry, c);
    if (random.one_in(5)) p.property = draw_property(random, entry, p);
    if (random.one_in(2)) {
        const simt::DeviceProfile& drawn = random.pick(simt::device_profiles());
        if (drawn.features.has_all(entry.needs)) p.profile = std::string(drawn.name);
    }
    if (random.one_in(4)) p.workers = int(random.between(2, 4));
    if (random.one_in(40)) p.bad_call = random.pick(bad_calls(entry, torch::kCPU)).name;
    return p;
}

}  // namespace

bool is_decidable(const Entry& entry, const Problem& p) {
    const AttentionCase& c = p.attention;
    if (c.options.scale && !is_decidable_scale(c, *c.options.scale)) return false;
    if (p.non_finite && p.non_finite->argument == NonFinite::Argument::v && !weights_stay_above_zero(c)) return false;
    return has_enough_rows(entry, c) && has_enough_results(entry, c) && !roundings_differ(entry, c) &&
           !equal_terms_add_up(entry, c);
}

Draw draw_problem(std::span<const Entry> entries, std::uint64_t seed, std::uint64_t number) {
    Random random(seed, number);
    Draw draw;
    draw.entry = std::size_t(random.below(std::int64_t(entries.size())));
    draw.problem = draw_for(random, entries[draw.entry]);
    return draw;
}

}  // namespace ladder::fuzz
