#pragma once

#include <string>

/// Plots of measured numbers, in the look of the book's figures.
namespace ladder::plots {

/// The colour that plots are drawn in where it means nothing: axes, words, grids. The look makes it dark on light
/// ground and light on dark.
inline constexpr const char* kInk = "#808890";

/// The least contrast of a line or a word with its ground (WCAG 2, AA), which common/figures/palette.py asks for too.
inline constexpr double kContrast = 4.5;

/// The contrast of two colours "#rrggbb", from 1 to 21 (WCAG 2).
double contrast(const std::string& one, const std::string& other);

/// An SVG as gnuplot draws it, or alike, in the look of the book's figures: a ground of its own, light or dark as the
/// reader's system asks for; the figures' font; every colour moved towards black or white until it stands out from that
/// ground. `title` is what a screen reader says. Throws std::invalid_argument if `svg` has no viewBox.
std::string in_the_look_of_the_book(std::string svg, const std::string& title);

}  // namespace ladder::plots
