#include "phase9_ring/rung/judge/problems.h"

namespace ladder::classroom::phase9_ring {

Part part() {
    return {.problems = {merge_problems(), zigzag_problems(), striped_problems(), time_problems()}, .mistakes = {}};
}

}  // namespace ladder::classroom::phase9_ring
