#include <string>

#include "common/attention/key_tiles.cuh"
#include "common/classroom/runner/problem.h"

// Asks for the boundaries of every query tile; no kernel is run.
void ladder::classroom::run(Problem& problem) {
    const auto size = [&](const char* name) { return int(problem.number(name)); };
    const int queries = size("Sq"), B_r = size("B_r");
    for (int i = 0; i * B_r < queries; ++i) {
        const cpu::KeyTiles tiles = cpu::key_tiles(Mask(size("mask")), i * B_r, B_r, size("B_c"), queries, size("Sk"));
        problem.answer("full " + std::to_string(i), tiles.full);
        problem.answer("visited " + std::to_string(i), tiles.visited);
    }
}
