#include "common/classroom/runner/problem.h"
#include "phase6_tensor_cores/exercises/placed_rows.cuh"

void ladder::classroom::run(Problem& problem) {
    const AttentionArguments arguments = problem.attention();
    cpu::launch_placed_rows(arguments);
}
