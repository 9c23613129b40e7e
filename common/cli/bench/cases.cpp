#include "common/cli/bench/cases.h"

#include <algorithm>
#include <stdexcept>

#include "common/rung/phase.h"

namespace ladder::cli::bench {
namespace {

constexpr std::pair<Sweep, const char*> kSweepNames[] = {
    {Sweep::headline, "headline"},  {Sweep::ladder, "ladder"},
    {Sweep::length, "length"},      {Sweep::columns, "columns"},
    {Sweep::head_dim, "head_dim"},  {Sweep::dtype, "dtype"},
    {Sweep::splits, "splits"},      {Sweep::batch_and_heads, "batch_and_heads"},
    {Sweep::kv_length, "kv_length"}};

}  // namespace

std::string name_of(Sweep sweep) {
    for (const auto& [value, name] : kSweepNames)
        if (value == sweep) return name;
    throw std::invalid_argument("unknown sweep");
}

Sweep sweep_named(const std::string& text) {
    for (const auto& [value, name] : kSweepNames)
        if (text == name) return value;
    throw std::invalid_argument("\"" + text + "\" is no sweep of ./ladder bench");
}

std::vector<Case> all_cases(Scale scale) {
    std::vector<Case> cases;
    for (const Phase& phase : phases()) {
        if (!phase.bench_cases) continue;
        CaseList list(scale, phase.number);
        phase.bench_cases(list);
        cases.insert(cases.end(), list.cases().begin(), list.cases().end());
    }
    std::ranges::stable_partition(
        cases, [](const Case& c) { return c.sweeps.contains(Sweep::headline) || c.sweeps.contains(Sweep::ladder); });
    return cases;
}

std::vector<Case> quick_cases(Scale scale) {
    std::vector<Case> cases = all_cases(scale);
    std::erase_if(cases, [](const Case& c) { return !c.quick && !c.sweeps.contains(Sweep::ladder); });
    return cases;
}

const std::vector<Entry>& all_entries() {
    static const std::vector<Entry> entries = [] {
        std::vector<Entry> all;
        for (const Phase& phase : phases())
            all.insert(all.end(), phase.bench_entries.begin(), phase.bench_entries.end());
        return all;
    }();
    return entries;
}

const Entry* entry_named(const std::string& name) {
    const auto found = std::ranges::find(all_entries(), name, &Entry::name);
    return found == all_entries().end() ? nullptr : &*found;
}

}  // namespace ladder::cli::bench
