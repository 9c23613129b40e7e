#include "phase4_causal/exercises/window.cuh"

#include "common/classroom/runner/problem.h"

void ladder::classroom::run(Problem& problem) {
    cpu::launch_window_forward(problem.attention(), int(problem.number("window")));
}
