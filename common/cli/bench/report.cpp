#include "common/cli/bench/report.h"

#include <algorithm>
#include <stdexcept>

namespace ladder::cli::bench {

std::string name_of(Unit unit) { return unit == Unit::tflops ? "TFLOP/s" : "GB/s"; }

Unit unit_of(Work work) { return work == Work::attention || work == Work::backward ? Unit::tflops : Unit::gb_s; }

double rate_of(Unit unit, double amount, double milliseconds) {
    if (milliseconds <= 0) return 0;
    return amount / (milliseconds * 1e-3) / (unit == Unit::tflops ? 1e12 : 1e9);
}

std::string ceiling_name(const Problem& problem) {
    switch (problem.work) {
        case Work::softmax:
            return "copy";
        case Work::decode:
            return "read";
        case Work::attention:
        case Work::backward:
            return problem.dtype == torch::kFloat32 ? "gemm_f32" : "gemm_bf16";
    }
    throw std::invalid_argument("unknown kind of problem");
}

const Measurement* CaseResult::find(const std::string& name) const {
    const auto found = std::ranges::find(measurements, name, &Measurement::name);
    return found == measurements.end() ? nullptr : &*found;
}

const Ceiling* Report::find_ceiling(const std::string& name) const {
    const auto found = std::ranges::find(ceilings, name, &Ceiling::name);
    return found == ceilings.end() || !found->not_available.empty() ? nullptr : &*found;
}

double Report::share_of_ceiling(const CaseResult& result, const Measurement& measurement) const {
    const Ceiling* ceiling = find_ceiling(ceiling_name(result.what.problem));
    if (!ceiling || ceiling->rate() <= 0 || !measurement.available()) return 0;
    return measurement.rate(ceiling->unit) / ceiling->rate();
}

int Report::wrong() const {
    int count = 0;
    for (const CaseResult& c : cases)
        count += int(std::ranges::count_if(
            c.measurements, [](const Measurement& m) { return m.role != Role::peer && m.available() && !m.right; }));
    return count;
}

int Report::broken() const {
    int count = 0;
    for (const CaseResult& c : cases)
        count += int(c.broke) + int(std::ranges::count_if(c.measurements, [](const Measurement& m) {
                     return m.role != Role::peer && m.broke;
                 }));
    return count;
}

double ratio(const CaseResult& result, const Measurement& rung, const Measurement& peer) {
    const double peer_rate = peer.rate(result.unit());
    return rung.available() && peer.available() && peer_rate > 0 ? rung.rate(result.unit()) / peer_rate : 0;
}

}  // namespace ladder::cli::bench
