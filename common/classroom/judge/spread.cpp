#include "common/classroom/judge/spread.h"

namespace ladder::classroom {
namespace {

template <class T>
std::vector<T> elements(const torch::Tensor& tensor, torch::ScalarType type) {
    const torch::Tensor rows = tensor.to(type).contiguous();
    return std::vector<T>(rows.data_ptr<T>(), rows.data_ptr<T>() + rows.numel());
}

}  // namespace

torch::Tensor wrong_elements(const torch::Tensor& got, const torch::Tensor& expected, double bound) {
    const torch::Tensor g = got.to(torch::kFloat64), e = expected.to(torch::kFloat64);
    const torch::Tensor same = g.eq(e).logical_or(g.isnan().logical_and(e.isnan()));
    return (g - e).abs().le(bound).logical_or(same).logical_not();
}

Spread spread_of(const std::string& name, const torch::Tensor& got, const torch::Tensor& expected,
                 const torch::Tensor& wrong, int64_t rows_per_tile) {
    return spread_of(name,
                     {.extents = wrong.sizes().vec(),
                      .got = elements<double>(got, torch::kFloat64),
                      .expected = elements<double>(expected, torch::kFloat64),
                      .wrong = elements<bool>(wrong, torch::kBool)},
                     rows_per_tile);
}

}  // namespace ladder::classroom
