#include "phase0_softmax/online_attention.cuh"

#include "common/classroom/runner/problem.h"

void ladder::classroom::run(Problem& problem) { cpu::launch_online_attention(problem.attention()); }
