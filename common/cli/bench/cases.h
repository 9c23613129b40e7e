#pragma once

#include <set>
#include <string>
#include <vector>

#include "common/cli/bench/problem.h"

namespace ladder::cli::bench {

/// The question that a case helps to answer. One case may serve several.
enum class Sweep {
    headline,         ///< the figures that the README shows
    ladder,           ///< one for each rung, of comparable size: the ladder chart and the roofline
    length,           ///< N, with batch * N constant
    columns,          ///< of a softmax
    head_dim,         ///< D
    dtype,            ///< float32, float16, bfloat16
    batch_and_heads,  ///< how many blocks there are to share out
    kv_length,        ///< of the cache, when decoding
    splits,           ///< of the keys, when decoding
};

std::string name_of(Sweep sweep);
Sweep sweep_named(const std::string& name);

/// One problem, and the entries of a phase that are timed on it.
struct Case {
    int phase = 0;
    std::vector<std::string> entries = {};
    Problem problem = {};
    std::set<Sweep> sweeps = {};
};

/// How much the machine can bear: a GPU is asked for billions of operations, the CPU machine for a few thousand.
enum class Scale { gpu, cpu };

/// Every case, each problem of a phase once, the headlines first: whoever stops early has the most important ones.
std::vector<Case> all_cases(Scale scale);

/// A few of them: one for each rung, and the shortest two of the sweeps that are drawn as curves.
std::vector<Case> quick_cases(Scale scale);

}  // namespace ladder::cli::bench
