#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "common/fuzz/entry.h"

namespace ladder::fuzz {

/// An entry that is right: its contract as torch calls it, with the float64 reference for a kernel. A stand-in to plant
/// mistakes in.
Entry honest_entry(Form form = Form::attention);

/// An entry with one mistake, and how the fuzzer must report it.
struct Planted {
    std::string name;  ///< Letters and digits
    Entry entry;
    std::string kind;                ///< Outcome::kind
    std::string smallest;            ///< describe() of the smallest problem that shows it
    std::vector<std::string> lines;  ///< what the printed test must contain
};

std::ostream& operator<<(std::ostream& stream, const Planted& planted);

std::vector<Planted> planted_mistakes();

}  // namespace ladder::fuzz
