#include "phase0_softmax/softmax.cuh"

#include "common/classroom/runner/problem.h"

void ladder::classroom::run(Problem& problem) {
    cpu::launch_block_plain_softmax({.x = problem.tensor("x"), .y = problem.tensor("y")});
}
