#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/simt/report/source_site.h"

namespace simt {

/// A line of the source that a machine instruction was made of.
struct SourceLine {
    std::string function;  ///< that it stands in
    SourceSite site;       ///< the line
    /// Which of the branches that one line has, such as those of `c ? f(x) : f(y)`; only some compilers tell.
    unsigned branch = 0;
    unsigned column = 0;  ///< in the line; 0: unknown

    /// Whether both are of one line, in one function.
    bool same_line(const SourceLine& other) const { return function == other.function && site == other.site; }
    /// Unless columns say otherwise.
    bool same_column(const SourceLine& other) const {
        return same_line(other) && (column == other.column || column == 0 || other.column == 0);
    }
    /// And of one branch of it.
    bool same_branch(const SourceLine& other) const { return same_line(other) && branch == other.branch; }
};

/// The lines that the instruction at `address` was made of: the innermost first, then the lines that call the functions
/// which were inlined. Empty if that is not known, because the code was compiled without -g1 or the program addr2line
/// is not there. Takes a tenth of a second for an address that nobody has asked for.
const std::vector<SourceLine>& source_lines(std::uintptr_t address);

/// From here on no line is known: for programs that may not start others.
void look_up_no_source_lines();

}  // namespace simt
