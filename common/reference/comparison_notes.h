#pragma once

#include <set>
#include <string>
#include <vector>

#include "common/torch/torch.h"

namespace ladder::reference {

/// What a comparison held the elements of one tensor against.
struct Held {
    std::string name;        ///< of the tensor, as it was given
    std::string about;       ///< the mistake whose result this is; empty for what is right
    torch::Tensor expected;  ///< in float64
    torch::Tensor bound;     ///< of the same shape
};

/// While one lives, it notes what comparisons in this thread hold against, for judges that have no libtorch.
class ComparisonNotes {
  public:
    ComparisonNotes();
    ~ComparisonNotes();
    ComparisonNotes(const ComparisonNotes&) = delete;
    ComparisonNotes& operator=(const ComparisonNotes&) = delete;

    /// The one that lives in this thread, or nullptr.
    static ComparisonNotes* current();

    std::vector<Held> held = {};  ///< in their order
    std::string about = {};  ///< a mistake: while this is not empty every comparison passes, so that none is left out
    std::set<std::string, std::less<>> known = {};  ///< mistakes whose results need not be noted again
};

}  // namespace ladder::reference
