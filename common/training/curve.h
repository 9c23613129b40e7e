#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ladder::training {

/// Losses of a run, to be drawn.
struct Curve {
    std::string name;                               ///< in the legend
    std::string colour;                             ///< "#c9772b"
    bool dots = false;                              ///< a dot a point, in the place of a line
    std::vector<std::pair<double, double>> points;  ///< step and loss
};

/// A picture in SVG, legible on light and on dark ground: loss over steps. Curves without points are left out.
std::string curves_as_svg(const std::string& title, const std::vector<Curve>& curves);

/// The mean of each point and those before it, back to `window` of them: what a noisy curve tends to.
std::vector<std::pair<double, double>> smoothed(const std::vector<double>& losses, std::size_t window);

}  // namespace ladder::training
