#include "common/cli/bench/contestant.h"

#include <fmt/format.h>

#include <memory>
#include <stdexcept>

namespace ladder::cli::bench {
namespace {

double total(const GlobalBytes& bytes) { return double(bytes.read) + double(bytes.written); }

Contestant contestant(const Entry& entry, const Problem& problem, const Tensors& inputs) {
    Contestant result{.name = entry.name,
                      .call = [call = entry.call, problem](const Tensors& t) { return call(t, problem); },
                      .flops = useful_flops(problem),
                      .useful_bytes = useful_bytes(problem),
                      .moved_bytes = total(entry.bytes(inputs, problem))};
    if (entry.prepare)
        result.prepare = [prepare = entry.prepare, problem](const Tensors& t) { return prepare(t, problem); };
    if (entry.judge)
        result.judge = [judge = entry.judge, inputs, problem](const Tensors& outputs) {
            return judge(outputs, inputs, problem);
        };
    return result;
}

/// What the whole takes more is the price of its other steps.
Contestant first_step(const FirstStep& step, const Problem& problem, const Tensors& inputs) {
    const auto expected = std::make_shared<const Expected>(problem, inputs);
    return {.name = step.name,
            .role = Role::step,
            .call = [call = step.call, problem](const Tensors& t) { return call(t, problem); },
            .judge = [expected, inputs, finish = step.finish](
                         const Tensors& outputs) { return expected->judge(finish(outputs, inputs)); },
            .useful_bytes = useful_bytes(problem) + step.bytes_left(inputs, problem)};
}

Contestant unmasked_peer(const Entry& entry, Problem problem, const Tensors& inputs) {
    problem.mask = Mask::none;
    Contestant peer = contestant(entry, problem, inputs);
    peer.name = entry.unmasked_peer;
    peer.role = Role::peer;
    const auto expected = std::make_shared<const Expected>(problem, inputs);
    peer.judge = [expected](const Tensors& outputs) { return expected->judge(outputs); };
    return peer;
}

}  // namespace

Contestant contestant_named(const std::string& name, const Problem& problem, const Tensors& inputs) {
    if (const Entry* entry = entry_named(name)) return contestant(*entry, problem, inputs);
    throw std::invalid_argument(fmt::format("there is no entry \"{}\" to measure", name));
}

std::vector<Contestant> companions(const std::vector<std::string>& entries, const Problem& problem,
                                   const Tensors& inputs) {
    std::vector<Contestant> result;
    for (const std::string& name : entries) {
        const Entry* entry = entry_named(name);
        if (entry && entry->first_step && entry->first_step->there_is_more(inputs, problem))
            result.push_back(first_step(*entry->first_step, problem, inputs));
    }
    if (problem.mask != Mask::none && problem.work == Work::attention)
        for (const Entry& entry : all_entries())
            if (!entry.unmasked_peer.empty()) result.push_back(unmasked_peer(entry, problem, inputs));
    return result;
}

}  // namespace ladder::cli::bench
