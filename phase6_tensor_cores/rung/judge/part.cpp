#include "phase6_tensor_cores/rung/judge/fragment_lookalikes.h"

namespace ladder::classroom::phase6_tensor_cores {

Part part() { return {.mistakes = fragment_mistakes()}; }

}  // namespace ladder::classroom::phase6_tensor_cores
