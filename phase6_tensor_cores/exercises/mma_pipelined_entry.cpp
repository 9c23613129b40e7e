#include "phase6_tensor_cores/mma_pipelined.cuh"

#include "common/classroom/runner/problem.h"

void ladder::classroom::run(Problem& problem) { cpu::launch_mma_pipelined(problem.attention()); }
