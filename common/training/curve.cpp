#include "common/training/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ladder::training {
namespace {

constexpr double kWidth = 720, kHeight = 400, kLeft = 56, kRight = 16, kTop = 40, kBottom = 48;
constexpr const char* kInk = "#808890";  // halfway between black and white, so that it can be read on both

struct Range {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    void take(double x) {
        low = std::min(low, x);
        high = std::max(high, x);
    }
};

/// A round distance between ticks, so that there are some five.
double tick_distance(double extent) {
    const double rough = extent / 5, unit = std::pow(10, std::floor(std::log10(rough)));
    for (const double factor : {1.0, 2.0, 5.0})
        if (factor * unit >= rough) return factor * unit;
    return 10 * unit;
}

}  // namespace

std::vector<std::pair<double, double>> smoothed(const std::vector<double>& losses, std::size_t window) {
    std::vector<std::pair<double, double>> points;
    double sum = 0;
    for (std::size_t i = 0; i < losses.size(); ++i) {
        sum += losses[i];
        if (i >= window) sum -= losses[i - window];
        points.emplace_back(double(i + 1), sum / double(std::min(i + 1, window)));
    }
    return points;
}

std::string curves_as_svg(const std::string& title, const std::vector<Curve>& curves) {
    Range steps, losses;
    for (const Curve& curve : curves)
        for (const auto& [step, loss] : curve.points) {
            steps.take(step);
            losses.take(loss);
        }
    if (!(steps.low < steps.high)) steps = {0, std::max(1.0, steps.high)};
    if (!(losses.low < losses.high)) losses = {0, std::isfinite(losses.high) ? losses.high + 1 : 6};
    steps.low = 0;
    const auto x = [&](double step) {
        return kLeft + (step - steps.low) / (steps.high - steps.low) * (kWidth - kLeft - kRight);
    };
    const auto y = [&](double loss) {
        return kTop + (losses.high - loss) / (losses.high - losses.low) * (kHeight - kTop - kBottom);
    };

    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" font-family=\"Helvetica, Arial, "
        "sans-serif\" "
        "font-size=\"13\" fill=\"{2}\">\n<text x=\"{3}\" y=\"20\" font-size=\"15\">{4}</text>\n",
        kWidth, kHeight, kInk, kLeft, title);
    const double across = tick_distance(losses.high - losses.low), along = tick_distance(steps.high);
    for (double loss = std::ceil(losses.low / across) * across; loss <= losses.high; loss += across)
        svg += fmt::format(
            "<path d=\"M{} {:.1f}H{}\" stroke=\"{}\" stroke-opacity=\"0.35\"/><text x=\"{}\" y=\"{:.1f}\" "
            "text-anchor=\"end\">{:.3g}</text>\n",
            kLeft, y(loss), kWidth - kRight, kInk, kLeft - 8, y(loss) + 4, loss);
    for (double step = 0; step <= steps.high; step += along)
        svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.0f}</text>\n", x(step),
                           kHeight - kBottom + 18, step);
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">steps</text>\n", (kLeft + kWidth) / 2,
                       kHeight - 10);

    double line = kTop + 8;
    for (const Curve& curve : curves) {
        if (curve.points.empty()) continue;
        std::string path;
        for (const auto& [step, loss] : curve.points) {
            if (curve.dots)
                svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x(step), y(loss),
                                   curve.colour);
            else
                path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x(step), y(loss));
        }
        if (!path.empty())
            svg +=
                fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"/>\n", path, curve.colour);
        svg += fmt::format(
            "<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"4\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>\n",
            kWidth - 260, line - 6, curve.colour, kWidth - 240, line, curve.name);
        line += 18;
    }
    return svg + "</svg>\n";
}

}  // namespace ladder::training
