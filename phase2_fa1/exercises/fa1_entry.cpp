#include "phase2_fa1/fa1.cuh"

#include "phase2_fa1/exercises/fa1_problem.h"

void ladder::classroom::run(Problem& problem) { cpu::launch_fa1_forward(fa1_arguments(problem)); }
