// Runs a program's wrong kernels and says, in one JSON object a line, how each was found out:
//
//   {"mutant": NAME, "begins": "checked"}
//   {"mutant": NAME, "caught_by": "reference", …, "factor": 39000}: times its bound; absent for NaN and infinity
//   {"mutant": NAME, "caught_by": "race", "check": "shared-memory race", "trial": "odd_columns", "message": "…"}
//   {"mutant": NAME, "begins": "value_alone"}
//   {"mutant": NAME, "value_alone": "no", "trial": null}
//
// The first trial that objects decides; caught_by is null where none does. The announcements let run.py say which
// mutant it was that never ended. Arguments are the names of mutants to run; none means all.

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/attention/outputs.h"
#include "common/simt/device/device.h"
#include "common/simt/report/leniency.h"
#include "tests/mutants/mutants.h"
#include "tests/mutants/trials.h"

namespace ladder::mutants {
namespace {

void say(const nlohmann::json& event) { std::cout << event.dump() << std::endl; }

torch::ScalarType dtype_of(simt::ElementType type) {
    return type == simt::ElementType::f32   ? torch::kFloat32
           : type == simt::ElementType::f16 ? torch::kFloat16
                                            : torch::kBFloat16;
}

/// The first trial that objects decides what a mutant was caught by. A result that is little beyond its bound there may
/// be more so in a later trial: the search goes on until one is plainly wrong. Returns the first trial where that was
/// by its result.
std::optional<std::string> report_check(const char* name, const std::vector<Trial>& trials) {
    constexpr double kPlainlyWrong = 3;
    nlohmann::json found{{"mutant", name}, {"caught_by", nullptr}};
    std::optional<std::string> first_wrong_result;
    double factor = 0;
    for (const Trial& trial : trials) {
        const Outcome outcome = trial.run();
        if (outcome.caught_by.empty() || outcome.factor <= factor) continue;
        if (factor > 0 && outcome.caught_by != kReference) continue;
        if (factor == 0 && outcome.caught_by == kReference) first_wrong_result = trial.name;
        factor = outcome.factor;
        found = {{"mutant", name},
                 {"caught_by", outcome.caught_by},
                 {"check", outcome.check},
                 {"trial", trial.name},
                 {"message", outcome.message}};
        if (outcome.caught_by == kReference && std::isfinite(factor)) found["factor"] = factor;
        if (factor >= kPlainlyWrong) break;
    }
    say(found);
    return first_wrong_result;
}

/// What remains if nobody diagnoses anything, and only results are compared.
void report_value_alone(const char* name, const std::vector<Trial>& trials) {
    const simt::ScopedLeniency lenient;
    std::string verdict = "no";
    nlohmann::json where = nullptr;
    for (const Trial& trial : trials) {
        const Outcome outcome = trial.run();
        if (outcome.caught_by.empty() || (verdict != "no" && outcome.caught_by != kReference)) continue;
        verdict = outcome.caught_by == kReference ? "yes" : outcome.hangs ? "hangs" : "does not run";
        where = trial.name;
        if (verdict == "yes") break;
    }
    say({{"mutant", name}, {"value_alone", verdict}, {"trial", where}});
}

int run(const std::vector<std::string>& chosen) {
    at::set_num_threads(1);
    simt::set_cpu_workers(1);            // run.py runs as many programs as there are cores
    const PoisonOutputs poison_outputs;  // an element that is never written stays NaN
    for (std::size_t n = 0; n < mutants().size(); ++n) {
        const Mutant& mutant = mutants()[n];
        if (!chosen.empty() && std::ranges::find(chosen, mutant.name) == chosen.end()) continue;
        active = n;
        const std::vector<Trial> all = trials(dtype_of(mutant.element));
        say({{"mutant", mutant.name}, {"begins", "checked"}});
        const std::optional<std::string> first_wrong_result = report_check(mutant.name, all);
        if (std::string_view(mutant.name).starts_with("original")) continue;
        say({{"mutant", mutant.name}, {"begins", "value_alone"}});
        if (first_wrong_result)  // nothing was diagnosed before it, so without diagnoses it would be the same
            say({{"mutant", mutant.name}, {"value_alone", "yes"}, {"trial", *first_wrong_result}});
        else
            report_value_alone(mutant.name, all);
    }
    return 0;
}

}  // namespace
}  // namespace ladder::mutants

int main(int argc, char** argv) { return ladder::mutants::run({argv + 1, argv + argc}); }
