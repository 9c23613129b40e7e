#include "phase1_naive/qv_blocked.cuh"

#include "common/classroom/runner/problem.h"
#include "phase1_naive/shared_need.cpp"

void ladder::classroom::run(Problem& problem) {
    cpu::launch_qv_blocked({problem.attention(), int(problem.number("block_rows"))});
}
