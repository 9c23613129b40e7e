#include "phase7_hopper/hopper_turns.cuh"

#include "common/classroom/runner/problem.h"

void ladder::classroom::run(Problem& problem) { cpu::launch_hopper_turns(problem.attention()); }
