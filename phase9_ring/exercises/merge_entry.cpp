#include <string>

#include "common/classroom/runner/problem.h"
#include "phase9_ring/merge.cuh"

// Parts come one after another, as on a ring. The last sum is the result.
void ladder::classroom::run(Problem& problem) {
    const auto parts = int(problem.number("parts"));
    const simt::TensorArgument out = problem.tensor("O"), lse = problem.tensor("LSE");
    simt::TensorArgument out_before = problem.tensor("O_before"), lse_before = problem.tensor("LSE_before");
    for (int p = 0; p < parts; ++p) {
        const std::string number = std::to_string(p);
        const bool last = p + 1 == parts;
        const simt::TensorArgument sum =
            last ? out
                 : problem.workspace("O sum " + number, simt::ElementType::f32,
                                     {out.extents[0], out.extents[1], out.extents[2], out.extents[3]});
        const simt::TensorArgument sum_lse = last ? lse
                                                  : problem.workspace("LSE sum " + number, simt::ElementType::f32,
                                                                      {lse.extents[0], lse.extents[1], lse.extents[2]});
        cpu::launch_merge({.out_before = out_before,
                           .lse_before = lse_before,
                           .out_part = problem.tensor("O_part" + number),
                           .lse_part = problem.tensor("LSE_part" + number),
                           .out = sum,
                           .lse = sum_lse});
        out_before = sum;
        lse_before = sum_lse;
    }
}
