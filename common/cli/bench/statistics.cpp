#include "common/cli/bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace ladder::cli::bench {
namespace {

double quantile(const std::vector<double>& sorted, double part) {
    const double position = part * double(sorted.size() - 1);
    const auto below = std::size_t(position);
    const auto above = std::min(below + 1, sorted.size() - 1);
    return std::lerp(sorted[below], sorted[above], position - double(below));
}

}  // namespace

Spread spread_of(std::vector<double> samples) {
    if (samples.empty()) throw std::invalid_argument("there are no samples to take a median of");
    for (const double sample : samples)
        if (!std::isfinite(sample)) throw std::invalid_argument("a measured time is not a finite number");
    std::ranges::sort(samples);
    return {.median = quantile(samples, 0.5),
            .lower_quartile = quantile(samples, 0.25),
            .upper_quartile = quantile(samples, 0.75),
            .least = samples.front(),
            .samples = int(samples.size())};
}

}  // namespace ladder::cli::bench
