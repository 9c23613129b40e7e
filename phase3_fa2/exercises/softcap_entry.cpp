#include "phase3_fa2/exercises/softcap.cuh"

#include "common/classroom/runner/problem.h"

void ladder::classroom::run(Problem& problem) {
    cpu::launch_softcap_forward(problem.attention(), float(problem.number("softcap")));
}
