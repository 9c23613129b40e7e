#include "phase5_decoding/exercises/choose_splits.h"

#include "common/classroom/runner/problem.h"

// Asks for a number; no kernel is run.
void ladder::classroom::run(Problem& problem) {
    const auto number = [&](const char* name) { return int(problem.number(name)); };
    problem.answer("splits", choose_splits(number("blocks"), number("places"), number("tiles"), number("most")));
}
