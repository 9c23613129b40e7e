#include "phase3_fa2/fa2.h"
#include "tests/mutants/trials.h"

namespace ladder::mutants {

std::vector<Trial> trials() { return attention_trials(fa2_forward); }

}  // namespace ladder::mutants
