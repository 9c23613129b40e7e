#include "phase9_ring/exercises/zigzag.h"

#include "common/classroom/runner/problem.h"

// Asks for numbers; no kernel is run.
void ladder::classroom::run(Problem& problem) {
    const auto number = [&](const char* name) { return std::int64_t(problem.number(name)); };
    problem.answer("position",
                   double(zigzag_position(number("length"), number("rank"), number("ranks"), number("index"))));
}
