#include "phase5_decoding/rung/judge/problems.h"

namespace ladder::classroom::phase5_decoding {

Part part() { return {.problems = {decode_problems(), merge_problems(), split_problems()}, .mistakes = {}}; }

}  // namespace ladder::classroom::phase5_decoding
