#include "phase6_tensor_cores/mma.cuh"

#include "common/classroom/runner/problem.h"

void ladder::classroom::run(Problem& problem) { cpu::launch_mma(problem.attention()); }
