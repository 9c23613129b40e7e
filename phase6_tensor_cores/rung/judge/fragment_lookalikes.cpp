#include "phase6_tensor_cores/rung/judge/fragment_lookalikes.h"

#include <array>
#include <limits>

#include "common/classroom/judge/resemblance.h"

namespace ladder::classroom::phase6_tensor_cores {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kLanes = 4, kColumns = 8, kRows = 16;  // of a row; of a fragment of scores

struct Recipe {
    std::string_view name;
    bool maximum_of_row = true, sum_of_row = true;  ///< or of one lane's columns
    bool factors_by_column = false;   ///< O_i's first columns by the upper row's, its second by the lower's
    bool keys_by_rows = false;        ///< the blocks of K_j in the order of those of Q_i
    bool queries_by_columns = false;  ///< those of Q_i, and of V_j, in the order of K_j's
};

constexpr std::array kMistakes{
    Recipe{.name = "phase6_tensor_cores/lanes_never_added", .sum_of_row = false},
    Recipe{.name = "phase6_tensor_cores/exercises/maximum_of_a_lane", .maximum_of_row = false},
    Recipe{.name = "phase6_tensor_cores/half_of_rows_swapped", .factors_by_column = true},
    Recipe{.name = "phase6_tensor_cores/exercises/keys_rows_first", .keys_by_rows = true},
    Recipe{.name = "phase6_tensor_cores/exercises/queries_columns_first", .queries_by_columns = true},
};

int64_t rounded_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

/// In each 16 x 16 block of the matrices, the two 8 x 8 blocks off the diagonal in each other's place.
torch::Tensor off_diagonal_exchanged(const torch::Tensor& x) {
    return x.reshape({x.size(0), x.size(1), x.size(2) / 16, 2, 8, x.size(3) / 16, 2, 8})
        .transpose(3, 6)
        .reshape(x.sizes());
}

Attended computed_by(const Recipe& recipe, const AttentionQuestion& question) {
    const int64_t batch = question.q.size(0), heads = question.q.size(1), queries = question.q.size(2),
                  keys = question.k.size(2), head_dim = question.q.size(3), B_c = question.keys_per_tile;
    const int64_t rows = rounded_up(queries, kRows), columns = rounded_up(keys, B_c);
    const int64_t D = head_dim <= 32 ? 32 : 64;  // runner/shadow/common/attention/compiled_for.cuh
    const auto filled_up = [&](const torch::Tensor& x, int64_t length) {
        return at::constant_pad_nd(x.to(torch::kFloat64).repeat_interleave(heads / x.size(1), 1),
                                   {0, D - head_dim, 0, length - x.size(2)}, 0);
    };
    torch::Tensor Q = filled_up(question.q, rows), K = filled_up(question.k, columns),
                  V = filled_up(question.v, columns);
    if (recipe.keys_by_rows) K = off_diagonal_exchanged(K);
    if (recipe.queries_by_columns) {
        Q = off_diagonal_exchanged(Q);
        V = off_diagonal_exchanged(V);
    }
    const torch::Tensor scores = (at::matmul(Q, K.transpose(-1, -2)) * question.form.scale)
                                     .masked_fill(at::arange(columns).ge(keys), -kInfinity);

    const torch::Tensor place = at::arange(D).remainder(kColumns), lane = place.div(kColumns / kLanes, "floor");
    torch::Tensor m = at::full({batch, heads, rows, kLanes}, -kInfinity, torch::kFloat64);
    torch::Tensor l = at::zeros_like(m), O = at::zeros({batch, heads, rows, D}, torch::kFloat64);
    for (int64_t first = 0; first < columns; first += B_c) {
        // [..., fragment, lane, element]
        const torch::Tensor S =
            scores.narrow(3, first, B_c).reshape({batch, heads, rows, B_c / kColumns, kLanes, kColumns / kLanes});
        const torch::Tensor of_lane = S.amax({-3, -1});
        const torch::Tensor m_new =
            at::maximum(m, recipe.maximum_of_row ? of_lane.amax(-1, true).expand_as(of_lane) : of_lane);
        const torch::Tensor m_safe = m_new.masked_fill(m_new.eq(-kInfinity), 0);
        const torch::Tensor rescale = at::exp(m - m_safe), P = at::exp(S - m_safe.unsqueeze(-2).unsqueeze(-1));
        torch::Tensor factors = rescale.index_select(-1, lane);
        if (recipe.factors_by_column)  // [..., row, lane, half], so that a column's place chooses among the last two
            factors = rescale.reshape({batch, heads, rows / kRows, 2, kRows / 2, kLanes})
                          .permute({0, 1, 2, 4, 5, 3})
                          .flatten(-2)
                          .index_select(-1, place)
                          .unsqueeze(3)
                          .expand({batch, heads, rows / kRows, 2, kRows / 2, D})
                          .reshape(O.sizes());
        l = rescale * l + P.sum({-3, -1});
        O = O * factors + at::matmul(P.flatten(3), V.narrow(2, first, B_c));
        m = m_new;
    }
    if (recipe.sum_of_row) l = l.sum(-1, true).expand_as(l);
    O = O / l.index_select(-1, lane);
    return {O.narrow(2, 0, queries).narrow(3, 0, head_dim), (m + at::log(l)).select(-1, 0).narrow(2, 0, queries)};
}

}  // namespace

std::vector<AttentionMistake> fragment_mistakes() {
    std::vector<AttentionMistake> mistakes;
    for (const Recipe& mistake : kMistakes)
        mistakes.push_back({mistake.name, [&mistake](const AttentionQuestion& question, const Attended& result) {
                                return question.weights_rounded && question.form.mask == Mask::none &&
                                       resembles(question, result, computed_by(mistake, question));
                            }});
    return mistakes;
}

}  // namespace ladder::classroom::phase6_tensor_cores
