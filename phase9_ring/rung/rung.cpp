#include "common/rung/phase.h"

namespace ladder::phase9_ring {

Phase describe() { return {.title = "ring attention"}; }

}  // namespace ladder::phase9_ring
