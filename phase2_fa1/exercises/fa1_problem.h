#pragma once

#include "common/classroom/runner/problem.h"
#include "phase2_fa1/fa1_arguments.h"

namespace ladder::classroom {

/// The problem as phase 2's kernel wants it: with the place where O, l and m wait between two steps, and with tiles so
/// small that short sequences take several.
inline Fa1Arguments fa1_arguments(Problem& problem, int B_r = 16, int B_c = 16) {
    const AttentionArguments a = problem.attention();
    const bool float32 = a.q.type == simt::ElementType::f32;
    const std::vector<std::int64_t> rows{a.batch(), a.query_heads(), a.query_length()},
        elements{a.batch(), a.query_heads(), a.query_length(), a.head_dim()};
    const int d = a.head_dim() <= 32 ? 32 : 64;
    return {a,
            float32 ? problem.tensor("O") : problem.workspace("O (float32)", simt::ElementType::f32, elements),
            problem.workspace("l", simt::ElementType::f32, rows),
            problem.workspace("m", simt::ElementType::f32, rows),
            {.B_r = B_r, .B_c = B_c, .shared_bytes = fa1_shared_bytes(B_r, B_c, d, float32 ? 4 : 2)}};
}

}  // namespace ladder::classroom
