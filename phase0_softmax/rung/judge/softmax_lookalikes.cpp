#include "phase0_softmax/rung/judge/softmax_lookalikes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "common/classroom/judge/first_given.h"
#include "common/reference/comparison.h"

namespace ladder::classroom::phase0_softmax {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kTermsPerPart = 64;  ///< as in phase0_softmax/softmax.cuh

struct Sum {
    float m, l;
};

/// The online softmax of one warp. As it stands here it is right; a mistake changes a field or two. In float32, since
/// some mistakes show only where an exponential underflows.
struct Recipe {
    std::string_view name;
    float first_maximum = -kInfinity;
    bool infinities_guarded = true;              ///< -inf - (-inf) never computed
    int rescalings_of_first = 1, of_second = 1;  ///< of the two sums in a merge
    bool divided = true;

    Sum empty() const { return {first_maximum, 0}; }

    Sum merge(Sum a, Sum b) const {
        const float m = std::fmax(a.m, b.m);
        const float base = infinities_guarded && std::isinf(m) ? 0 : m;
        const auto sum = [&](Sum part, int rescalings) {
            for (; rescalings > 0; --rescalings) part.l *= std::exp(part.m - base);
            return part.l;
        };
        return {m, sum(a, rescalings_of_first) + sum(b, of_second)};
    }

    /// y = softmax(x), for one row of N scores.
    void operator()(const float* x, float* y, int64_t N) const {
        std::array<Sum, 32> lanes;
        for (int64_t lane = 0; lane < 32; ++lane) {
            Sum& state = lanes[std::size_t(lane)] = empty();
            for (int64_t j = lane; j < N;) {
                Sum part = empty();
                for (int64_t n = 0; n < kTermsPerPart && j < N; ++n, j += 32) part = merge(part, {x[j], 1});
                state = merge(state, part);
            }
        }
        float m = -kInfinity, l = 0;
        for (const Sum& lane : lanes) m = std::fmax(m, lane.m);
        const float base = std::isinf(m) ? 0 : m;
        for (const Sum& lane : lanes) l += lane.l * std::exp(lane.m - base);
        for (int64_t j = 0; j < N; ++j) y[j] = std::exp(x[j] - base) * (divided ? 1 / l : 1);
    }
};

constexpr std::array kRecipes{
    Recipe{.name = "phase0_softmax/sums_added_as_they_are", .rescalings_of_first = 0, .of_second = 0},
    Recipe{.name = "phase0_softmax/sum_not_rescaled_in_a_merge", .rescalings_of_first = 0},
    Recipe{.name = "phase0_softmax/sum_rescaled_twice_in_a_merge", .rescalings_of_first = 2},
    Recipe{.name = "phase0_softmax/infinity_minus_infinity", .infinities_guarded = false},
    Recipe{.name = "phase0_softmax/state_starts_at_zero", .first_maximum = 0},
    Recipe{.name = "phase0_softmax/no_division_by_l", .divided = false},
};

}  // namespace

std::vector<std::string_view> softmax_lookalikes() {
    std::vector<std::string_view> names;
    for (const Recipe& mistake : kRecipes) names.push_back(mistake.name);
    return names;
}

std::optional<std::string_view> softmax_lookalike(const torch::Tensor& x, const torch::Tensor& y) {
    const torch::Tensor scores = x.to(torch::kFloat32).contiguous();
    const int64_t N = scores.size(1);
    return first_given(kRecipes, [&](const Recipe& mistake) {
        torch::Tensor wrong = at::empty_like(scores);
        for (int64_t row = 0; row < scores.size(0); ++row)
            mistake(scores.data_ptr<float>() + row * N, wrong.data_ptr<float>() + row * N, N);
        if (at::isinf(wrong).any().item<bool>()) return false;  // an infinity looks like every other
        return reference::compare(y, wrong.to(torch::kFloat64), wrong.to(y.scalar_type()), {}, "y").passed;
    });
}

}  // namespace ladder::classroom::phase0_softmax
