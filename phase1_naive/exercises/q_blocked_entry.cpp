#include "phase1_naive/q_blocked.cuh"

#include "common/classroom/runner/problem.h"
#include "phase1_naive/shared_need.cpp"

void ladder::classroom::run(Problem& problem) {
    cpu::launch_q_blocked({problem.attention(), int(problem.number("block_rows"))});
}
