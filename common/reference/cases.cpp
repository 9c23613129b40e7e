#include "common/reference/cases.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "common/reference/pairwise.h"

namespace ladder::reference {
namespace {

constexpr std::array kDtypes{torch::kFloat32, torch::kFloat16, torch::kBFloat16};

/// How q, k and v lie together: never two in the same layout, so that the strides of one are wrong for the others. In
/// the first six, each tensor in turn has each layout whose rows may be read 16 bytes at a time if D allows it. In the
/// others, one tensor forbids that: another one each time, for another reason.
constexpr std::array<Layouts, 9> kArrangements{{
    {Layout::contiguous, Layout::bshd, Layout::packed_qkv},
    {Layout::bshd, Layout::packed_qkv, Layout::sliced_offset},
    {Layout::packed_qkv, Layout::sliced_offset, Layout::expanded_heads},
    {Layout::sliced_offset, Layout::expanded_heads, Layout::expanded_batch},
    {Layout::expanded_heads, Layout::expanded_batch, Layout::contiguous},
    {Layout::expanded_batch, Layout::contiguous, Layout::bshd},
    {Layout::padded_rows, Layout::packed_qkv, Layout::contiguous},
    {Layout::bshd, Layout::padded_heads, Layout::packed_qkv},
    {Layout::packed_qkv, Layout::bshd, Layout::shifted},
}};

/// Collects cases and gives each its name and a seed of its own.
class CaseList {
  public:
    void add(AttentionCase problem) {
        problem.name = describe(problem);
        problem.seed = cases_.size() + 1;
        cases_.push_back(std::move(problem));
    }

    /// float32, float16, bfloat16, float32, …: spreads the dtypes over cases that do not need all three.
    torch::ScalarType next_dtype() const { return kDtypes[cases_.size() % kDtypes.size()]; }

    /// The same for layouts.
    Layouts next_layouts() const { return kArrangements[cases_.size() % kArrangements.size()]; }

    std::vector<AttentionCase> take() { return std::move(cases_); }

  private:
    std::vector<AttentionCase> cases_;
};

/// What a case costs, since kernels work on whole tiles: 64 queries by 64 keys, in a head dim of 32, 64, 128 or 256.
int64_t tiled_work(const AttentionCase& problem) {
    constexpr int64_t kTile = 64;
    const auto tiles = [](int64_t length) { return (length + kTile - 1) / kTile; };
    const int64_t head_dim = int64_t(std::bit_ceil(std::max<uint64_t>(uint64_t(problem.head_dim), 32)));
    return problem.batch * problem.query_heads * tiles(problem.query_length) * tiles(problem.key_length) * kTile *
           kTile * head_dim;
}

/// One big dimension at a time, or several that are not so big: 513 keys in one head, nine heads with 65 keys.
bool is_quick(const AttentionCase& problem) {
    constexpr int64_t kMostTiledWork = 2'700'000, kMostWork = 1'200'000, kMostHeads = 20, kMostElements = 17'000;
    return tiled_work(problem) <= kMostTiledWork && work(problem) <= kMostWork &&
           problem.batch * problem.query_heads <= kMostHeads &&
           problem.query_length * problem.head_dim <= kMostElements &&
           problem.key_length * problem.head_dim <= kMostElements &&
           problem.query_length * problem.key_length <= kMostElements;
}

/// Hq and Hkv.
struct Heads {
    int64_t query, kv;
};

// The values that pairwise() combines. In each list the quickest comes first; the others lie below, at and above what
// kernels have constants for.
constexpr std::array<int64_t, 3> kBatches{1, 2, 5};
constexpr std::array<Heads, 6> kHeads{{{1, 1}, {2, 1}, {3, 3}, {4, 2}, {8, 1}, {9, 3}}};
constexpr std::array<int64_t, 7> kQueryLengths{1, 2, 17, 33, 64, 65, 129};
constexpr std::array<int64_t, 8> kKeyLengths{2, 1, 33, 64, 65, 129, 257, 513};
constexpr std::array<int64_t, 17> kHeadDims{8, 1, 3, 20, 32, 33, 48, 64, 80, 96, 112, 128, 136, 160, 192, 200, 256};
constexpr std::array<int64_t, 9> kMaskedHeadDims{8, 1, 32, 48, 64, 80, 128, 192, 256};
constexpr std::array kUnmasked{Mask::none};
constexpr std::array kCausal{Mask::causal_bottom_right, Mask::causal_top_left};

/// Every pair of values of batch, heads, lengths, head dim, layouts, dtype and mask that makes a quick problem.
void add_pairs(CaseList& list, std::span<const int64_t> head_dims, std::span<const Mask> masks) {
    const auto problem_of = [&](const Choice& choice) {
        const auto& [query_heads, kv_heads] = kHeads[choice[1]];
        return AttentionCase{.batch = kBatches[choice[0]],
                             .query_heads = query_heads,
                             .kv_heads = kv_heads,
                             .query_length = kQueryLengths[choice[2]],
                             .key_length = kKeyLengths[choice[3]],
                             .head_dim = head_dims[choice[4]],
                             .dtype = kDtypes[choice[6]],
                             .layouts = kArrangements[choice[5]],
                             .options = {.scale = {}, .mask = masks[choice[7]]}};
    };
    const std::vector<std::size_t> values{kBatches.size(),    kHeads.size(),    kQueryLengths.size(),
                                          kKeyLengths.size(), head_dims.size(), kArrangements.size(),
                                          kDtypes.size(),     masks.size()};
    for (const Choice& choice : pairwise(values, [&](const Choice& c) { return is_quick(problem_of(c)); }))
        list.add(problem_of(choice));
}

/// Every remainder of Sk that a tile of up to 128 keys can leave, after a whole tile of 64: in float32, where a key
/// more or less is always seen, and with all keys seen by the last query.
void add_remainders(CaseList& list, Mask mask) {
    constexpr int64_t kTile = 64, kLargestTile = 128;
    for (int64_t remainder = 1; remainder <= kLargestTile; ++remainder) {
        list.add({.query_length = 1 + remainder % 3,
                  .key_length = kTile + remainder,
                  .head_dim = 8,
                  .layouts = list.next_layouts(),
                  .options = {.scale = {}, .mask = mask}});
    }
}

void add_families(CaseList& list) {
    constexpr std::array kFamilies{
        Family::scores_near_minus_1000, Family::one_huge_logit, Family::equal_scores,  Family::index_ramp,
        Family::offset_values,          Family::tiny,           Family::rising_scores, Family::falling_scores};
    for (const auto family : kFamilies) {
        for (const auto dtype : kDtypes) {
            // 16-bit: the scale 1 / 8 keeps exact scores exact. float32: scale and scores round, as they usually do.
            list.add({.query_heads = 2,
                      .kv_heads = 2,
                      .query_length = 35,
                      .key_length = 131,
                      .head_dim = dtype == torch::kFloat32 ? 40 : 64,
                      .dtype = dtype,
                      .family = family,
                      .layouts = list.next_layouts()});
        }
    }
}

void add_scales(CaseList& list) {
    for (const double scale : {1.0, 0.3, -0.25, 0.0}) {
        list.add({.query_length = 33,
                  .key_length = 66,
                  .head_dim = 16,
                  .dtype = list.next_dtype(),
                  .layouts = list.next_layouts(),
                  .options = {.scale = scale}});
    }
}

}  // namespace

std::vector<AttentionCase> standard_cases() {
    CaseList list;
    add_pairs(list, kHeadDims, kUnmasked);
    add_remainders(list, Mask::none);
    add_families(list);
    add_scales(list);
    return list.take();
}

std::vector<AttentionCase> causal_cases() {
    CaseList list;
    add_pairs(list, kMaskedHeadDims, kCausal);
    add_remainders(list, Mask::causal_bottom_right);
    for (const auto mask : kCausal) {
        for (const auto family : {Family::scores_near_minus_1000, Family::one_huge_logit, Family::equal_scores,
                                  Family::index_ramp, Family::offset_values, Family::rising_scores}) {
            const auto dtype = list.next_dtype();
            list.add({.batch = 2,
                      .query_length = 70,
                      .key_length = 67,
                      .head_dim = dtype == torch::kFloat32 ? 40 : 64,
                      .dtype = dtype,
                      .family = family,
                      .layouts = list.next_layouts(),
                      .options = {.scale = {}, .mask = mask}});
        }
    }
    return list.take();
}

std::vector<AttentionCase> every(std::size_t n, const std::vector<AttentionCase>& cases) {
    std::vector<AttentionCase> some;
    for (std::size_t i = 0; i < cases.size(); i += n) some.push_back(cases[i]);
    return some;
}

}  // namespace ladder::reference
