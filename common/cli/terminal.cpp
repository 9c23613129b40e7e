#include "common/cli/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace ladder::cli {
namespace {

bool environment_has(const char* name) {
    const char* value = std::getenv(name);
    return value && *value;
}

std::string_view code_of(Style style) {
    switch (style) {
        case Style::plain:
            return "";
        case Style::bold:
            return "\033[1m";
        case Style::dim:
            return "\033[2m";
        case Style::good:
            return "\033[32m";
        case Style::bad:
            return "\033[31m";
        case Style::note:
            return "\033[33m";
    }
    return "";
}

/// Columns that UTF-8 text takes, as far as this program writes any: one per code point.
int width_of(std::string_view text) {
    return int(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

bool on_terminal() { return isatty(STDOUT_FILENO) == 1; }

bool wants_colour() {
    static const bool wanted = on_terminal() && !environment_has("NO_COLOR") && environment_has("TERM") &&
                               std::string_view(std::getenv("TERM")) != "dumb";
    return wanted;
}

std::string styled(Style style, std::string_view text) {
    if (style == Style::plain || !wants_colour()) return std::string(text);
    return fmt::format("{}{}\033[0m", code_of(style), text);
}

std::string wrapped(std::string_view text, int indent, int width) {
    std::istringstream words{std::string(text)};
    const std::string margin(std::size_t(indent), ' ');
    std::string result, line = margin;
    for (std::string word; words >> word;) {
        if (width_of(line) > indent && width_of(line) + 1 + width_of(word) > width) {
            result += line + '\n';
            line = margin;
        }
        line += (width_of(line) > indent ? " " : "") + word;
    }
    return result + line + '\n';
}

Progress::Progress(std::string_view what) {
    if (!on_terminal()) return;
    fmt::print("\r\033[K{}", styled(Style::dim, what));
    std::fflush(stdout);
}

Progress::~Progress() {
    if (!on_terminal()) return;
    fmt::print("\r\033[K");
    std::fflush(stdout);
}

std::string Table::text(int indent) const {
    std::vector<int> widths;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
        int width = width_of(columns_[c].title);
        for (const auto& row : rows_) width = std::max(width, width_of(row[c].text));
        widths.push_back(width);
    }
    const auto line = [&](const auto& text_of, const auto& style_of) {
        std::string result(std::size_t(indent), ' ');
        for (std::size_t c = 0; c < columns_.size(); ++c) {
            const std::string padding(std::size_t(widths[c] - width_of(text_of(c))), ' ');
            const bool left = columns_[c].align == Align::left, last = c + 1 == columns_.size();
            result += left ? styled(style_of(c), text_of(c)) + (last ? "" : padding)
                           : padding + styled(style_of(c), text_of(c));
            if (!last) result += "  ";
        }
        return result + '\n';
    };
    std::string result =
        line([&](std::size_t c) { return columns_[c].title; }, [](std::size_t) { return Style::bold; });
    for (const auto& row : rows_)
        result += line([&](std::size_t c) { return row[c].text; }, [&](std::size_t c) { return row[c].style; });
    return result;
}

}  // namespace ladder::cli
