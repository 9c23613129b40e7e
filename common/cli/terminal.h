#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/rung/human.h"

namespace ladder::cli {

/// Whether standard output is a terminal that wants colour: a terminal, TERM not "dumb", NO_COLOR unset or empty.
bool wants_colour();
bool on_terminal();

enum class Style { plain, bold, dim, good, bad, note };
std::string styled(Style style, std::string_view text);

/// Breaks text into lines of at most `width` columns, each after `indent` spaces (the first line too).
std::string wrapped(std::string_view text, int indent, int width = 100);

/// One line that says what is going on, on terminals only; gone when the object is.
class Progress {
  public:
    explicit Progress(std::string_view what);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
};

/// Columns padded to their widest cell: text to the left, numbers to the right.
class Table {
  public:
    enum class Align { left, right };
    struct Column {
        std::string title;
        Align align = Align::left;
    };
    struct Cell {
        std::string text;
        Style style = Style::plain;
    };

    explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
    void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
    std::string text(int indent = 0) const;

  private:
    std::vector<Column> columns_;
    std::vector<std::vector<Cell>> rows_;
};

}  // namespace ladder::cli
