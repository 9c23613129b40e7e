#include "common/classroom/judge/spread.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace ladder::classroom {
namespace {

/// The indices along a dimension at which anything is wrong, in order.
std::vector<int64_t> wrong_along(const torch::Tensor& wrong, int64_t dimension) {
    const torch::Tensor any = wrong.movedim(dimension, 0).reshape({wrong.size(dimension), -1}).any(1);
    std::vector<int64_t> indices;
    for (int64_t n = 0; n < any.size(0); ++n)
        if (any[n].item<bool>()) indices.push_back(n);
    return indices;
}

/// "row 5 of 97", "rows 33 to 96 of 97 (the last)", "every second row"; empty where all are wrong.
std::string part_of(const std::vector<int64_t>& wrong, int64_t extent, const std::string& one,
                    const std::string& many) {
    const auto count = int64_t(wrong.size());
    if (count == extent) return "";
    if (count == 1)
        return fmt::format("only in {} {} of {}{}", one, wrong.front(), extent,
                           wrong.front() == extent - 1 ? ", the last" : "");
    if (wrong.back() - wrong.front() + 1 == count)
        return wrong.back() == extent - 1
                   ? fmt::format("in {} {} to the last, {}", many, wrong.front(), extent - 1)
                   : fmt::format("in {} {} to {} of {}", many, wrong.front(), wrong.back(), extent);
    const int64_t step = wrong[1] - wrong[0];
    bool even_steps = step > 1;
    for (std::size_t n = 1; n < wrong.size(); ++n) even_steps = even_steps && wrong[n] - wrong[n - 1] == step;
    if (even_steps) return fmt::format("in every {}th {} from {} on", step, one, wrong.front());
    const auto listed = std::min<std::size_t>(wrong.size(), 6);
    return fmt::format("in {} of {} {}: {}{}", count, extent, many,
                       fmt::join(wrong.begin(), wrong.begin() + listed, ", "), listed < wrong.size() ? ", …" : "");
}

std::string tiles_of(const std::vector<int64_t>& rows, int64_t extent, int64_t rows_per_tile) {
    if (rows_per_tile <= 1 || extent <= rows_per_tile) return "";
    const int64_t tiles = (extent + rows_per_tile - 1) / rows_per_tile;
    std::vector<int64_t> hit;
    for (const int64_t row : rows)
        if (hit.empty() || hit.back() != row / rows_per_tile) hit.push_back(row / rows_per_tile);
    if (int64_t(hit.size()) == tiles) return "";
    return fmt::format(" ({}, tiles being {} rows high)", part_of(hit, tiles, "query tile", "query tiles"),
                       rows_per_tile);
}

std::string number(double value) { return std::isnan(value) ? "NaN" : fmt::format("{:.6g}", value); }

}  // namespace

torch::Tensor wrong_elements(const torch::Tensor& got, const torch::Tensor& expected, double bound) {
    const torch::Tensor g = got.to(torch::kFloat64), e = expected.to(torch::kFloat64);
    const torch::Tensor same = g.eq(e).logical_or(g.isnan().logical_and(e.isnan()));
    return (g - e).abs().le(bound).logical_or(same).logical_not();
}

Spread spread_of(const std::string& name, const torch::Tensor& got, const torch::Tensor& expected,
                 const torch::Tensor& wrong, int64_t rows_per_tile) {
    static const std::vector<std::string> kAttention{"batch", "head", "row", "column"}, kMatrix{"row", "column"};
    const std::vector<std::string>& names = wrong.dim() > 2 ? kAttention : kMatrix;
    const int64_t row_dimension = wrong.dim() > 2 ? 2 : 0;

    const int64_t flat = wrong.reshape({-1}).to(torch::kInt).argmax().item<int64_t>();
    std::vector<std::string> place;
    int64_t rest = flat;
    for (int64_t d = wrong.dim(); d-- > 0;) {
        place.insert(place.begin(), fmt::format("{} {}", names[std::size_t(d)], rest % wrong.size(d)));
        rest /= wrong.size(d);
    }
    Spread spread;
    spread.first = fmt::format("{} at {}: got {}, expected {}", name, fmt::join(place, ", "),
                               number(got.reshape({-1})[flat].item<double>()),
                               number(expected.reshape({-1})[flat].item<double>()));

    const auto count = wrong.sum().item<int64_t>();
    std::vector<std::string> parts;
    for (int64_t d = 0; d < wrong.dim(); ++d) {
        const std::vector<int64_t> indices = wrong_along(wrong, d);
        const std::string& one = names[std::size_t(d)];
        std::string part = part_of(indices, wrong.size(d), one, one == "batch" ? "batches" : one + "s");
        if (part.empty()) continue;
        if (d == row_dimension) part += tiles_of(indices, wrong.size(d), rows_per_tile);
        parts.push_back(std::move(part));
    }
    spread.pattern =
        count == wrong.numel() ? fmt::format("all {} elements of {} are wrong", count, name)
        : parts.empty()
            ? fmt::format("{} of {} elements of {} are wrong, in every row and column", count, wrong.numel(), name)
            : fmt::format("{} of {} elements of {} are wrong: {}", count, wrong.numel(), name, fmt::join(parts, "; "));
    return spread;
}

}  // namespace ladder::classroom
