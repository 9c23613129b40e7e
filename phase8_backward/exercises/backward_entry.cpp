#include "common/classroom/runner/problem.h"
#include "phase8_backward/delta.cuh"
#include "phase8_backward/dkdv.cuh"
#include "phase8_backward/dq.cuh"

void ladder::classroom::run(Problem& problem) {
    BackwardArguments a(problem.attention());
    a.dout = problem.tensor("dO");
    if (problem.number("has_dlse") != 0) a.dlse = problem.tensor("dLSE");
    a.dq = problem.tensor("dQ");
    a.dk = problem.tensor("dK");
    a.dv = problem.tensor("dV");
    a.d = problem.workspace("D", simt::ElementType::f32, {a.batch(), a.query_heads(), a.query_length()});
    cpu::launch_backward_delta(a);
    cpu::launch_backward_dkdv(a);
    cpu::launch_backward_dq(a);
}
