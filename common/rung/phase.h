#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/fuzz/entry.h"
#include "common/rung/bench.h"
#include "common/rung/case_list.h"
#include "common/rung/overflow.h"
#include "common/rung/ring.h"
#include "common/rung/rung.h"
#include "common/torch/torch.h"

namespace ladder {

/// Whether a phase's rungs run with a causal mask.
enum class CausalMask {
    never,           ///< they know none
    if_asked,        ///< with --causal
    unless_refused,  ///< without --no-causal
};

/// What a phase brings to the program: all that knows its kernels by name, beside its questions (question.h). Each
/// phase has a function that returns this, `Phase describe()` in a namespace that is called like its folder; what it
/// has nothing of it leaves out.
struct Phase {
    std::string folder = {};  ///< as the list has it, common/rung/phases.txt
    int number = 0;           ///< the folder's
    std::string title = {};
    CausalMask causal_mask = CausalMask::never;
    bool splits_keys = false;  ///< into RungInput::splits pieces

    /// The elements that its rungs take. Where nobody asks for others they are the first.
    std::vector<torch::ScalarType> dtypes = {torch::kFloat32, torch::kFloat16, torch::kBFloat16};

    /// The rungs of the tour, in the order in which the chapter brings them.
    std::function<std::vector<Rung>(const RungInput&)> rungs = {};

    /// Rungs that have no place in the tour, and that the profiler looks at all the same, and with it ncu and
    /// compute-sanitizer.
    std::function<std::vector<Rung>(const RungInput&)> profiled_besides = {};

    /// Rungs that only ./ladder trace runs. No formula has what they move: it depends on how often somebody looks
    /// whether it is his turn.
    std::function<std::vector<Rung>(const RungInput&)> traced_besides = {};

    /// What the tour adds to its table where this phase and the one before it stand side by side.
    std::string beside_the_phase_before = {};

    std::vector<fuzz::Entry> fuzz_entries = {};
    std::vector<bench::Entry> bench_entries = {};
    std::function<void(bench::CaseList&)> bench_cases = {};
    std::function<OverflowDemo(const OverflowRequest&)> overflow = {};
    std::function<RingDemo()> ring = {};
};

/// The phases that this program was made of, in their order. Generated from the list, see LadderAddPhase.cmake.
const std::vector<Phase>& phases();

/// The phase that lives in `folder`: its description, with all that follows from the folder's name.
Phase phase_in(const std::string& folder, Phase description);

/// Throws std::out_of_range for a number that no phase of this program has.
const Phase& phase_numbered(int number);

/// The phase's rungs on `input`; none if it has none.
std::vector<Rung> rungs_of(const Phase& phase, const RungInput& input);

}  // namespace ladder
