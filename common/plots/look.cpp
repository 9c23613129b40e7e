#include "common/plots/look.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <regex>
#include <stdexcept>

namespace ladder::plots {
namespace {

using Colour = std::array<double, 3>;  ///< red, green, blue from 0 to 1

constexpr const char* kFont = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";

/// What a figure lies on, and its words; the colours are those of common/figures/palette.py.
struct Theme {
    const char* panel;
    const char* border;
    const char* ink;
    Colour furthest;  ///< from the panel: what colours move towards
};
constexpr Theme kLight = {"#fcfdfe", "#d5dbe1", "#1d242b", {0, 0, 0}};
constexpr Theme kDark = {"#1a1f24", "#343c45", "#e6eaee", {1, 1, 1}};

Colour parsed(const std::string& text) {
    static const std::regex hexadecimal("#([0-9a-fA-F]{2})([0-9a-fA-F]{2})([0-9a-fA-F]{2})");
    static const std::regex decimal(R"(rgb\(\s*(\d+),\s*(\d+),\s*(\d+)\s*\))");
    std::smatch found;
    const bool is_hexadecimal = std::regex_match(text, found, hexadecimal);
    if (!is_hexadecimal && !std::regex_match(text, found, decimal))
        throw std::invalid_argument("\"" + text + "\" is no colour; colours are #rrggbb or rgb(r, g, b)");
    Colour colour;
    for (std::size_t i = 0; i < 3; ++i) colour[i] = std::stoi(found[i + 1], nullptr, is_hexadecimal ? 16 : 10) / 255.0;
    return colour;
}

std::string written(const Colour& colour) {
    return fmt::format("#{:02x}{:02x}{:02x}", int(std::lround(255 * colour[0])), int(std::lround(255 * colour[1])),
                       int(std::lround(255 * colour[2])));
}

double luminance(const Colour& colour) {
    const auto linear = [](double c) { return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4); };
    return 0.2126 * linear(colour[0]) + 0.7152 * linear(colour[1]) + 0.0722 * linear(colour[2]);
}

std::string on_ground(const std::string& text, const Theme& theme) {
    if (text == "black") return theme.ink;  // gnuplot's own words for ink and paper
    if (text == "white") return theme.panel;
    const Colour colour = parsed(text == "gray" ? "#808080" : text);
    if (written(colour) == kInk) return theme.ink;
    constexpr double kStep = 0.02;
    for (double share = 0; share < 1; share += kStep) {
        Colour moved;
        for (std::size_t i = 0; i < 3; ++i) moved[i] = colour[i] + share * (theme.furthest[i] - colour[i]);
        if (contrast(written(moved), theme.panel) >= kContrast) return written(moved);
    }
    return theme.ink;
}

std::string rules(const std::map<std::string, std::string>& selectors, const Theme& theme) {
    std::string css = fmt::format(".panel{{fill:{};stroke:{}}}\n", theme.panel, theme.border);
    for (const auto& [selector, colour] : selectors)
        css += fmt::format("{}{{{}:{}}}\n", selector, selector.substr(1, selector.find('=') - 1),
                           on_ground(colour, theme));
    return css;
}

std::string escaped(const std::string& text) {
    std::string result;
    for (const char c : text) result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
    return result;
}

}  // namespace

double contrast(const std::string& one, const std::string& other) {
    const auto [low, high] = std::minmax({luminance(parsed(one)), luminance(parsed(other))});
    return (high + 0.05) / (low + 0.05);
}

std::string in_the_look_of_the_book(std::string svg, const std::string& title) {
    static const std::regex head(R"re(<svg[^>]*viewBox="0 0 ([0-9.]+) ([0-9.]+)"[^>]*>)re");
    static const std::regex name(R"(\s*<title>[^<]*</title>(\s*<desc>[^<]*</desc>)?)");
    static const std::regex use(
        R"re((stroke|fill|color)\s*=\s*(["'])(#[0-9a-fA-F]{6}|rgb\([^)]*\)|black|white|gray)\2)re");
    svg = std::regex_replace(svg, name, "");
    std::smatch found;
    if (!std::regex_search(svg, found, head)) throw std::invalid_argument("an SVG without a viewBox");

    std::map<std::string, std::string> selectors;  // to the colour that they select
    for (auto it = std::sregex_iterator(svg.begin(), svg.end(), use); it != std::sregex_iterator(); ++it)
        selectors[fmt::format("[{}=\"{}\"]", (*it)[1].str(), (*it)[3].str())] = (*it)[3];

    const std::string opening = fmt::format(
        "\n<title>{}</title>\n<style>\ntext,[font-family]{{font-family:{}}}\n{}@media "
        "(prefers-color-scheme:dark){{\n{}}}\n</style>\n"
        "<rect class=\"panel\" x=\"0.5\" y=\"0.5\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"10\"/>\n",
        escaped(title), kFont, rules(selectors, kLight), rules(selectors, kDark), std::stod(found[1]) - 1,
        std::stod(found[2]) - 1);
    return svg.insert(std::size_t(found.position(0) + found.length(0)), opening);
}

}  // namespace ladder::plots
