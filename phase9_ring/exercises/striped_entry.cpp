#include "phase9_ring/exercises/striped.h"

#include "common/classroom/runner/problem.h"

// Asks for numbers; no kernel is run.
void ladder::classroom::run(Problem& problem) {
    const auto number = [&](const char* name) { return std::int64_t(problem.number(name)); };
    problem.answer("seen", double(striped_seen(number("rank"), number("owner"), number("row"), number("held"))));
}
