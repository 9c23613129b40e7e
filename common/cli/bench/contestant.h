#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/cli/bench/problem.h"
#include "common/cli/bench/report.h"
#include "common/cli/bench/verify.h"
#include "common/torch/torch.h"

namespace ladder::cli::bench {

/// One that takes part in a case: something to call with an input set, and what to make of its results.
struct Contestant {
    std::string name = {};
    Role role = Role::rung;
    std::string not_available = {};  ///< why it cannot take part, where that is known beforehand; then no more is set
    std::function<Tensors(const Tensors& inputs)> prepare = {};  ///< what `call` is given, where not the inputs
    std::function<Tensors(const Tensors& inputs)> call = {};
    std::function<Verdict(const Tensors& outputs)> judge = {};  ///< of the results for the first input set
    double flops = 0;
    double useful_bytes = 0;
    double moved_bytes = 0;  ///< see Measurement
};

/// The entry `name` of this repository on a problem like `inputs`; throws std::invalid_argument for an unknown name,
/// and what the entry throws for a problem that it does not take.
Contestant contestant_named(const std::string& name, const Problem& problem, const Tensors& inputs);

/// What else takes part when `entries` are timed on this problem: the first steps of those that have one, and where
/// there is a mask, the entries that are compared without it.
std::vector<Contestant> companions(const std::vector<std::string>& entries, const Problem& problem,
                                   const Tensors& inputs);

/// What PyTorch offers for this problem, backend by backend; those that do not take it say why in `not_available`.
std::vector<Contestant> peers(const Problem& problem, torch::Device device);

}  // namespace ladder::cli::bench
