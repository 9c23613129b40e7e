#include "phase1_naive/standard.cuh"

#include "common/classroom/runner/problem.h"

void ladder::classroom::run(Problem& problem) {
    const ladder::AttentionArguments a = problem.attention();
    const std::vector<std::int64_t> scores{a.batch(), a.query_heads(), a.query_length(), a.key_length()};
    cpu::launch_standard_attention(
        {a, problem.workspace("S", a.q.type, scores), problem.workspace("P", a.q.type, scores)});
}
