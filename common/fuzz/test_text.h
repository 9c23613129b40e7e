#pragma once

#include <string>

#include "common/fuzz/entry.h"

namespace ladder::fuzz {

/// A GoogleTest that runs this problem, with all that it needs: appended to the entry's test file it compiles as it is.
/// `origin` is a comment that says where it comes from.
std::string as_test(const Entry& entry, const Problem& problem, const std::string& origin);

}  // namespace ladder::fuzz
