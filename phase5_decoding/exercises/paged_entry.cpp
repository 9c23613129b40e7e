#include "phase5_decoding/exercises/paged.cuh"

#include "common/classroom/runner/problem.h"

void ladder::classroom::run(Problem& problem) {
    cpu::launch_paged_decode(problem.attention(), problem.tensor("page_table"), problem.tensor("kv_lengths"));
}
