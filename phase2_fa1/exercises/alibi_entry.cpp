#include "phase2_fa1/exercises/alibi.cuh"

#include "phase2_fa1/exercises/fa1_problem.h"

void ladder::classroom::run(Problem& problem) {
    cpu::launch_alibi_forward(fa1_arguments(problem), problem.tensor("slopes"));
}
