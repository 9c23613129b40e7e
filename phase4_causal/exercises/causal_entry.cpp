#include "phase4_causal/causal.cuh"

#include "common/classroom/runner/problem.h"

void ladder::classroom::run(Problem& problem) { cpu::launch_causal_forward(problem.attention()); }
