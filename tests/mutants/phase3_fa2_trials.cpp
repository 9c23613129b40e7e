#include "phase3_fa2/fa2.h"
#include "tests/mutants/trials.h"

namespace ladder::mutants {

std::vector<Trial> trials(torch::ScalarType dtype) { return attention_trials(fa2_forward, dtype); }

}  // namespace ladder::mutants
