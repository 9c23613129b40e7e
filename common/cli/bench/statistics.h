#pragma once

#include <vector>

namespace ladder::cli::bench {

/// How repeated measurements of one thing lie: the middle, and where the middle half of them is.
struct Spread {
    double median = 0;
    double lower_quartile = 0;
    double upper_quartile = 0;
    double least = 0;
    int samples = 0;

    /// Half the distance between the quartiles, as a part of the median: 0.01 is "give or take one percent".
    double relative() const { return median > 0 ? (upper_quartile - lower_quartile) / 2 / median : 0; }
};

/// Quantiles interpolate between neighbours in sorted order, so that the median of an even number of samples is the
/// mean of the middle two. Throws std::invalid_argument for no samples, and for one that is not finite.
Spread spread_of(std::vector<double> samples);

}  // namespace ladder::cli::bench
