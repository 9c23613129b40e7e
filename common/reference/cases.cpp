#include "common/reference/cases.h"

#include <array>

namespace ladder::reference {
namespace {

constexpr std::array kDtypes{torch::kFloat32, torch::kFloat16, torch::kBFloat16};

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

    std::vector<AttentionCase> take() { return std::move(cases_); }

  private:
    std::vector<AttentionCase> cases_;
};

void add_lengths(CaseList& list) {
    for (const int64_t length : {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 257}) {
        const bool is_long = length > 200;
        list.add({.query_heads = is_long ? 1 : 2,
                  .kv_heads = is_long ? 1 : 2,
                  .query_length = length,
                  .key_length = length,
                  .head_dim = is_long ? 16 : 32});
    }
    for (const int64_t length : {1, 33, 64, 127, 129}) {
        list.add({.query_length = length, .key_length = length, .head_dim = 64, .dtype = list.next_dtype()});
    }
}

void add_unequal_lengths(CaseList& list) {
    constexpr std::array<std::array<int64_t, 2>, 8> kLengths{
        {{1, 257}, {257, 1}, {33, 129}, {129, 33}, {64, 65}, {65, 64}, {2, 255}, {128, 31}}};
    for (const auto [queries, keys] : kLengths) {
        list.add({.batch = 2,
                  .query_heads = 2,
                  .kv_heads = 2,
                  .query_length = queries,
                  .key_length = keys,
                  .head_dim = 32,
                  .dtype = list.next_dtype()});
    }
}

void add_heads(CaseList& list) {
    struct Heads {
        int64_t batch, query_heads, kv_heads;
    };
    constexpr std::array<Heads, 6> kHeads{{{3, 2, 2}, {2, 3, 3}, {2, 4, 2}, {1, 6, 2}, {1, 8, 1}, {2, 5, 1}}};
    for (const auto& heads : kHeads) {
        list.add({.batch = heads.batch,
                  .query_heads = heads.query_heads,
                  .kv_heads = heads.kv_heads,
                  .query_length = 33,
                  .key_length = 65,
                  .head_dim = 20,
                  .dtype = list.next_dtype()});
    }
}

void add_head_dims(CaseList& list) {
    const auto add = [&list](int64_t head_dim, torch::ScalarType dtype) {
        list.add({.query_heads = 2,
                  .kv_heads = 2,
                  .query_length = 33,
                  .key_length = 65,
                  .head_dim = head_dim,
                  .dtype = dtype});
    };
    for (const int64_t head_dim : {1, 3, 16, 20, 32, 40, 64, 96, 128, 160, 256}) add(head_dim, torch::kFloat32);
    for (const int64_t head_dim : {1, 20, 64, 128, 256}) add(head_dim, torch::kFloat16);
    for (const int64_t head_dim : {3, 40, 96, 160}) add(head_dim, torch::kBFloat16);
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
                      .family = family});
        }
    }
}

void add_layouts(CaseList& list) {
    for (const auto layout : {Layout::bshd, Layout::padded_rows, Layout::sliced_offset, Layout::expanded_heads}) {
        for (const auto dtype : {torch::kFloat32, torch::kFloat16}) {
            list.add({.batch = 2,
                      .query_heads = 4,
                      .kv_heads = 2,
                      .query_length = 34,
                      .key_length = 67,
                      .head_dim = 32,
                      .dtype = dtype,
                      .layout = layout});
        }
    }
}

void add_scales(CaseList& list) {
    for (const double scale : {1.0, 0.3, -0.25, 0.0}) {
        list.add({.query_length = 33,
                  .key_length = 66,
                  .head_dim = 16,
                  .dtype = list.next_dtype(),
                  .options = {.scale = scale}});
    }
}

}  // namespace

std::vector<AttentionCase> standard_cases() {
    CaseList list;
    add_lengths(list);
    add_unequal_lengths(list);
    add_heads(list);
    add_head_dims(list);
    add_families(list);
    add_layouts(list);
    add_scales(list);
    return list.take();
}

std::vector<AttentionCase> causal_cases() {
    constexpr std::array kMasks{Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};
    constexpr std::array<std::array<int64_t, 2>, 13> kLengths{{{1, 1},
                                                               {33, 33},
                                                               {64, 64},
                                                               {128, 128},
                                                               {255, 255},
                                                               {65, 129},
                                                               {129, 65},
                                                               {1, 128},
                                                               {128, 1},
                                                               {63, 257},
                                                               {257, 63},
                                                               {100, 101},
                                                               {2, 1}}};
    CaseList list;
    for (const auto mask : kMasks) {
        for (const auto [queries, keys] : kLengths) {
            list.add({.query_heads = 2,
                      .kv_heads = 1,
                      .query_length = queries,
                      .key_length = keys,
                      .head_dim = queries * keys > 30'000 ? 8 : 32,
                      .dtype = list.next_dtype(),
                      .options = {.scale = {}, .mask = mask}});
        }
    }
    for (const auto mask : {Mask::causal_bottom_right, Mask::causal_top_left}) {
        for (const auto family : {Family::scores_near_minus_1000, Family::one_huge_logit, Family::equal_scores,
                                  Family::index_ramp, Family::offset_values, Family::rising_scores}) {
            const auto dtype = list.next_dtype();
            list.add({.batch = 2,
                      .query_length = 70,
                      .key_length = 67,
                      .head_dim = dtype == torch::kFloat32 ? 40 : 64,
                      .dtype = dtype,
                      .family = family,
                      .options = {.scale = {}, .mask = mask}});
        }
        for (const auto layout : {Layout::bshd, Layout::padded_rows, Layout::sliced_offset, Layout::expanded_heads}) {
            list.add({.batch = 2,
                      .query_heads = 4,
                      .kv_heads = 2,
                      .query_length = 40,
                      .key_length = 43,
                      .head_dim = 32,
                      .dtype = list.next_dtype(),
                      .layout = layout,
                      .options = {.scale = {}, .mask = mask}});
        }
        for (const int64_t head_dim : {1, 80, 128, 256}) {
            list.add({.query_length = 33,
                      .key_length = 37,
                      .head_dim = head_dim,
                      .dtype = list.next_dtype(),
                      .options = {.scale = 0.1, .mask = mask}});
        }
    }
    return list.take();
}

}  // namespace ladder::reference
