#include "phase9_ring/exercises/ring_time.h"

#include "common/classroom/runner/problem.h"

// Asks for numbers; no kernel is run.
void ladder::classroom::run(Problem& problem) {
    problem.answer("seconds", ring_seconds({.compute = problem.number("compute"), .travel = problem.number("travel")},
                                           int(problem.number("ranks"))));
    problem.answer(
        "tokens", fewest_tokens_that_hide(problem.number("flops"), problem.number("bytes"), problem.number("element")));
}
