#include "phase1_naive/exercises/keys_in_tiles.cuh"

#include "common/classroom/runner/problem.h"

void ladder::classroom::run(Problem& problem) { cpu::launch_keys_in_tiles(problem.attention()); }
