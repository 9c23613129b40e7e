#include "tests/mutants/trials.h"

#include <limits>
#include "phase9_ring/merge.h"

namespace ladder::mutants {
namespace {

using ::testing::AssertionFailure, ::testing::AssertionResult, ::testing::AssertionSuccess;

/// Parts whose sums are of different sizes, added one after another, against their weighted mean in float64. They come
/// to some of the rows, as parts of a causal mask do.
AssertionResult merges(std::int64_t parts, std::int64_t head_dim, double spread, torch::ScalarType dtype) {
    at::manual_seed(std::uint64_t(parts));
    const torch::Tensor out = at::randn({parts, 2, 3, 11, head_dim}).to(dtype),
                        lse = spread * at::randn({parts, 2, 3, 11});
    SoFar so_far(at::empty({2, 3, 13, head_dim}, dtype));
    for (std::int64_t p = 0; p < parts; ++p) so_far.merge(2, {.out = out[p], .lse = lse[p]});
    const AttentionResult merged = so_far.result();
    const torch::Tensor sums = lse.to(torch::kFloat64);
    const torch::Tensor expected = (at::softmax(sums, 0).unsqueeze(-1) * out.to(torch::kFloat64)).sum(0);
    const double tolerance = dtype == torch::kFloat32 ? 1e-4 : 2e-2;
    if (!at::allclose(merged.out.narrow(2, 2, 11).to(torch::kFloat64), expected, tolerance, tolerance))
        return AssertionFailure() << "O of " << parts << " parts is wrong";
    if (!at::allclose(merged.lse.narrow(2, 2, 11).to(torch::kFloat64), at::logsumexp(sums, 0), 1e-4, 1e-4))
        return AssertionFailure() << "LSE of " << parts << " parts is wrong";
    if (!merged.out.narrow(2, 0, 2).eq(0).all().item<bool>()) return AssertionFailure() << "other rows changed";
    return AssertionSuccess();
}

/// A part that saw nothing, 0 / 0, counts for nothing; one with a score of NaN makes NaN.
AssertionResult keeps_what_is_not_finite() {
    constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
    const auto merged = [&](float out, float lse) {
        SoFar so_far(at::empty({1, 1, 2, 8}));
        for (const auto& [o, l] : {std::pair(1.0f, 0.0f), std::pair(out, lse)})
            so_far.merge(0, {.out = at::full({1, 1, 2, 8}, o), .lse = at::full({1, 1, 2}, l)});
        return so_far.result().out;
    };
    if (!merged(kNaN, -kInf).eq(1).all().item<bool>()) return AssertionFailure() << "a part without keys counts";
    SoFar nothing(at::empty({1, 1, 3, 8}));
    for (int part = 0; part < 2; ++part)
        nothing.merge(1, {.out = at::zeros({1, 1, 2, 8}), .lse = at::full({1, 1, 2}, -kInf)});
    if (!nothing.result().out.eq(0).all().item<bool>()) return AssertionFailure() << "rows without keys are not 0";
    if (!merged(kNaN, kNaN).isnan().all().item<bool>()) return AssertionFailure() << "a NaN is lost";
    return AssertionSuccess();
}

}  // namespace

std::vector<Trial> trials(torch::ScalarType dtype) {
    std::vector<Trial> trials;
    for (const std::int64_t parts : {1, 2, 5})
        for (const std::int64_t head_dim : {32, 20})
            trials.push_back(trial(std::to_string(parts) + "_parts_of_" + std::to_string(head_dim),
                                   [=] { return merges(parts, head_dim, 3, dtype); }));
    trials.push_back(trial("large_sums", [=] { return merges(3, 32, 60, dtype); }));
    if (dtype == torch::kFloat32) trials.push_back(trial("not_finite", keeps_what_is_not_finite));
    return trials;
}

}  // namespace ladder::mutants
