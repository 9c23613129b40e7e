#include "common/fuzz/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <stdexcept>
#include <tuple>

#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "common/fuzz/bad_calls.h"
#include "common/reference/call_memory.h"
#include "common/reference/comparison.h"
#include "common/reference/gradient_cases.h"
#include "common/reference/gradient_comparison.h"
#include "common/reference/rotary_tables.h"
#include "common/simt/device/device_profile.h"
#include "common/simt/report/launch_log.h"
#include "common/simt/report/machine_error.h"

namespace ladder::fuzz {
namespace {

using reference::Comparison;

Outcome failed(std::string kind, std::string report) {
    return {.verdict = Verdict::failed, .kind = std::move(kind), .report = std::move(report)};
}

double value_of(NonFinite::Value value) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return value == NonFinite::Value::nan             ? std::numeric_limits<double>::quiet_NaN()
           : value == NonFinite::Value::plus_infinity ? kInfinity
                                                      : -kInfinity;
}

/// Messages that differ only in their numbers are of one kind.
std::string kind_of_message(const std::string& message) {
    return "threw: " + message.substr(0, message.find_first_of("0123456789\n"));
}

/// The number after `word` in a message; nothing if there is none.
std::optional<std::size_t> number_after(const std::string& message, const std::string& word) {
    const auto at = message.find(word);
    if (at == message.npos) return {};
    std::size_t number = 0;
    const char* const first = message.data() + at + word.size();
    const auto [last, error] = std::from_chars(first, message.data() + message.size(), number);
    return error == std::errc() && last != first ? std::optional(number) : std::nullopt;
}

/// A call that was refused for want of shared memory, with the words of check_shared_memory() or by the launch itself.
struct Refusal {
    std::size_t required;
    std::size_t limit;
    std::string message;
};

struct Called {
    AttentionResult result = {};
    AttentionGradients gradients = {};  ///< of Form::backward, which has no result
    std::optional<Refusal> refusal = {};
    std::optional<Outcome> failure = {};
};

Called call(const Entry& entry, const Operands& operands, const Problem& problem) {
    try {
        if (entry.form == Form::backward) return {.gradients = entry.differentiate(operands, problem)};
        return {.result = entry.call(operands, problem)};
    } catch (const simt::MachineError& error) {
        return {.failure = failed(std::string(simt::name_of(error.report().fault)), error.what())};
    } catch (const simt::LaunchError& error) {
        if (error.required_shared_bytes > error.shared_bytes_limit)
            return {.refusal = Refusal{error.required_shared_bytes, error.shared_bytes_limit, error.what()}};
        return {.failure = failed(kind_of_message(error.what()), error.what())};
    } catch (const std::invalid_argument& error) {
        const std::string message = error.what();
        const auto required = number_after(message, ": required "), limit = number_after(message, ", limit ");
        if (required && limit) return {.refusal = Refusal{*required, *limit, message}};
        return {.failure = failed(kind_of_message(message), message)};
    } catch (const std::exception& error) {
        const std::string message = reference::message_of(error);
        return {.failure = failed(kind_of_message(message), message)};
    }
}

Comparison compared(const Entry& entry, const Operands& operands, const Problem& problem, const Called& called) {
    if (entry.form == Form::softmax) return reference::compare_softmax(called.result.out, operands.q);
    if (entry.form == Form::backward)
        return reference::compare_gradients(called.gradients, operands.q, operands.k, operands.v,
                                            {.out = operands.out, .lse = operands.lse}, operands.dout,
                                            problem.attention.options, operands.dlse);
    if (entry.compare) return entry.compare(called.result, operands, problem);
    return reference::compare_attention(called.result, operands.q, operands.k, operands.v, problem.attention.options,
                                        operands.kv_lengths);
}

/// The answer of one call, and that its inputs are as they were.
Outcome judged(const Entry& entry, const Operands& operands, const Problem& problem, Called& called) {
    std::vector<std::pair<std::string, torch::Tensor>> inputs{{entry.form == Form::softmax ? "x" : "q", operands.q}};
    if (entry.form != Form::softmax) {
        inputs.emplace_back("k", operands.k);
        inputs.emplace_back("v", operands.v);
    }
    if (operands.kv_lengths) inputs.emplace_back("kv_lengths", *operands.kv_lengths);
    if (operands.cosines.defined()) {
        inputs.emplace_back("cosines", operands.cosines);
        inputs.emplace_back("sines", operands.sines);
    }
    if (entry.form == Form::backward) {
        inputs.emplace_back("out", operands.out);
        inputs.emplace_back("lse", operands.lse);
        inputs.emplace_back("dout", operands.dout);
        inputs.emplace_back("dlse", operands.dlse);
    }
    const reference::MemoryWatch watch(std::move(inputs));

    called = call(entry, operands, problem);
    if (called.failure) return *called.failure;
    if (called.refusal) return {.verdict = Verdict::refused};
    for (const std::string& name : watch.written())
        return failed("wrote to its input", name + ": the entry wrote to its input");
    const Comparison verdict = compared(entry, operands, problem, called);
    if (!verdict.passed) return failed("wrong answer", verdict.report);
    return {.share_of_bound = verdict.bound > 0 ? verdict.max_abs_error / verdict.bound : 0.0};
}

Outcome wrong_bits(const Called& a, const Called& b, const std::string& kind) {
    for (const auto& [name, x, y] : {std::tuple("out", a.result.out, b.result.out),
                                     {"lse", a.result.lse, b.result.lse},
                                     {"dq", a.gradients.dq, b.gradients.dq},
                                     {"dk", a.gradients.dk, b.gradients.dk},
                                     {"dv", a.gradients.dv, b.gradients.dv}})
        if (x.defined() && !reference::same_bits(x, y))
            return failed(kind, fmt::format("{}: {} has other bits", kind, name));
    return {};
}

/// Whether a kernel may read both 16 bytes at a time, or neither. Where it reads otherwise, it may add up in another
/// order.
bool aligned_alike(const Operands& a, const Operands& b) {
    const auto alike = [](const torch::Tensor& x, const torch::Tensor& y) {
        const auto aligned = [](const torch::Tensor& t) {
            return t.defined() && tensor_argument("", t).rows_aligned_to_16_bytes();
        };
        return aligned(x) == aligned(y);
    };
    return alike(a.q, b.q) && alike(a.k, b.k) && alike(a.v, b.v) && alike(a.dout, b.dout);
}

/// A call of `problem` again, in a way that must not matter.
Outcome check_property(const Entry& entry, const Operands& operands, const Problem& problem, const Called& called) {
    switch (problem.property) {
        case Property::none:
            return {};
        case Property::repeats_bitwise: {
            const simt::ScopedCpuWorkers other_workers(problem.workers == 1 ? 2 : 1);
            const Called again = call(entry, operands, problem);
            if (again.failure) return *again.failure;
            return wrong_bits(called, again, "a second call gives another result");
        }
        case Property::ignores_batch_neighbours: {
            const std::int64_t last = problem.attention.batch - 1;
            const auto alone = [last](const torch::Tensor& batch) {
                return batch.defined() ? batch.narrow(0, last, 1) : batch;
            };
            Operands sequence{.q = alone(operands.q),
                              .k = alone(operands.k),
                              .v = alone(operands.v),
                              .out = alone(operands.out),
                              .lse = alone(operands.lse),
                              .dout = alone(operands.dout),
                              .dlse = alone(operands.dlse),
                              .cosines = operands.cosines,
                              .sines = operands.sines};
            if (operands.kv_lengths) sequence.kv_lengths = alone(*operands.kv_lengths);
            const Called again = call(entry, sequence, problem);
            if (again.failure) return *again.failure;
            if (!aligned_alike(operands, sequence)) {
                const Comparison verdict = compared(entry, sequence, problem, again);
                return verdict.passed ? Outcome{} : failed("wrong answer", verdict.report);
            }
            const Called last_of_all{
                .result = {alone(called.result.out), alone(called.result.lse)},
                .gradients = {alone(called.gradients.dq), alone(called.gradients.dk), alone(called.gradients.dv)}};
            return wrong_bits(last_of_all, again, "neighbours in the batch change the result");
        }
        case Property::ignores_splits: {
            Problem otherwise = problem;
            otherwise.splits = other_splits(problem);
            Called again;
            Outcome outcome = judged(entry, operands, otherwise, again);
            if (outcome.verdict == Verdict::failed)
                outcome.report = fmt::format("with splits {}: {}", *otherwise.splits, outcome.report);
            return outcome;
        }
    }
    return {};
}

/// Takes a refusal at its word.
Outcome check_refusal(const Entry& entry, const Operands& operands, const Problem& problem, const Refusal& refusal,
                      torch::Device device) {
    const auto wrong = [&](const std::string& why) { return failed("refused wrongly", why + ": " + refusal.message); };
    simt::Device limits = device_limits(device);
    if (refusal.required <= refusal.limit) return wrong("it says itself that the device has enough");
    if (refusal.limit != std::size_t(limits.shared_bytes_per_block_optin))
        return wrong(fmt::format("the device's limit is {} bytes", limits.shared_bytes_per_block_optin));
    if (device.is_cuda()) return {.verdict = Verdict::refused};

    limits.shared_bytes_per_block_optin = int(refusal.required);
    const simt::ScopedCpuDevice just_enough(limits);
    Called again;
    const Outcome outcome = judged(entry, operands, problem, again);
    if (again.refusal)
        return wrong(
            fmt::format("with {} bytes it is refused again, by \"{}\"", refusal.required, again.refusal->message));
    if (outcome.verdict == Verdict::failed) return outcome;
    return {.verdict = Verdict::refused};
}

Outcome try_bad_call(const Entry& entry, const std::string& name, torch::Device device) {
    const auto calls = bad_calls(entry, device);
    const auto found = std::ranges::find(calls, name, &BadCall::name);
    if (found == calls.end()) throw std::invalid_argument(entry.name + " has no bad call \"" + name + "\"");
    const simt::LaunchLog log;
    try {
        if (entry.form == Form::backward)
            entry.differentiate(found->operands, found->problem);
        else
            entry.call(found->operands, found->problem);
    } catch (const std::exception& error) {
        const std::string message = reference::message_of(error);
        for (const std::string& word : found->mentions)
            if (message.find(word) == message.npos)
                return failed("poor message", fmt::format("the message lacks \"{}\": {}", word, message));
        if (!log.records().empty()) return failed("launched first", "something was launched before: " + message);
        return {.verdict = Verdict::refused};
    }
    return failed("accepted a bad call", entry.name + " accepted the bad call " + name);
}

Outcome try_call(const Entry& entry, const Problem& problem, torch::Device device) {
    const Operands operands = make_operands(entry, problem, device);
    Called called;
    const Outcome outcome = judged(entry, operands, problem, called);
    if (called.refusal) return check_refusal(entry, operands, problem, *called.refusal, device);
    if (outcome.verdict == Verdict::failed) return outcome;
    const Outcome property = check_property(entry, operands, problem, called);
    return property.verdict == Verdict::failed ? property : outcome;
}

}  // namespace

Operands make_operands(const Entry& entry, const Problem& problem, torch::Device device) {
    if (entry.form == Form::softmax) {
        const torch::Tensor x = reference::make_scores(problem.attention, device);
        if (const auto& n = problem.non_finite) x[n->index[2]][n->index[3]].fill_(value_of(n->value));
        return {.q = x};
    }
    if (entry.form == Form::backward) {
        const reference::BackwardInputs x = reference::make_backward_inputs(problem.attention, device);
        return {.q = x.q, .k = x.k, .v = x.v, .out = x.out, .lse = x.lse, .dout = x.dout, .dlse = x.dlse};
    }
    const EightBits& eight_bits = problem.eight_bits;
    auto inputs = entry.form == Form::eight_bits
                      ? reference::make_block_inputs(problem.attention, eight_bits.sizes, kScaledRows, device)
                      : reference::make_inputs(problem.attention, device);
    Operands operands{.q = inputs.q, .k = inputs.k, .v = inputs.v};
    if (eight_bits.first_query) {
        const reference::AttentionCase& c = problem.attention;
        const std::int64_t positions = std::max(*eight_bits.first_query + c.query_length, c.key_length);
        const reference::RotaryTables tables = reference::rotary_tables(positions, c.head_dim, device);
        operands.cosines = tables.cosines;
        operands.sines = tables.sines;
    }
    if (problem.kv_lengths) {
        operands.kv_lengths = at::tensor(*problem.kv_lengths, torch::kInt64).to(device);
        reference::poison_past_lengths(inputs, *operands.kv_lengths);
    }
    if (const auto& n = problem.non_finite) {
        const torch::Tensor* const arguments[] = {&operands.q, &operands.k, &operands.v};
        const auto& [b, h, row, column] = n->index;
        (*arguments[int(n->argument)])[b][h][row][column].fill_(value_of(n->value));
    }
    return operands;
}

Outcome try_problem(const Entry& entry, const Problem& problem, torch::Device device) {
    const PoisonOutputs poison_outputs;
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile(problem.profile)));
    const simt::ScopedCpuWorkers workers(problem.workers);
    if (!problem.bad_call.empty()) return try_bad_call(entry, problem.bad_call, device);
    try {
        return try_call(entry, problem, device);
    } catch (const std::exception& error) {  // what a GPU finds wrong, it says when the result is looked at
        const std::string message = reference::message_of(error);
        return failed(kind_of_message(message), message);
    }
}

}  // namespace ladder::fuzz
