#include "phase8_backward/rung/judge/problems.h"

namespace ladder::classroom::phase8_backward {

Part part() { return {.problems = {backward_problems()}, .mistakes = {}}; }

}  // namespace ladder::classroom::phase8_backward
