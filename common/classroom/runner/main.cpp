// Runs a learner's kernel on one problem, and says what came of it. The program consists of this, the CPU machine, an
// exercise's entry and the learner's file; it knows neither libtorch nor what the right answer is. The judge starts it.
//
//   standard input   the problem, a Message:
//     device           name of the device profile to imitate
//     numbers          {name: value}
//     inputs, outputs  [{name, type, extents}]; the blobs are those of the inputs, in order
//   descriptor 3     the reply, a Message:
//     token            as the problem has it
//     fault            null, or what was wrong: {kind, name, message}; of a machine error also calls, addresses in this
//                      program to return to, innermost first
//     launches         [{kernel, grid, block, shared_bytes, read, written, barriers, …}]
//     answers          {name: value}
//     blobs            the outputs, in order; none after a fault

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <typeinfo>

#include "common/classroom/runner/problem.h"
#include "common/classroom/runner/sandbox.h"
#include "common/classroom/wire.h"
#include "common/simt/device/device.h"
#include "common/simt/memory/global_memory.h"
#include "common/simt/report/launch_log.h"
#include "common/simt/report/machine_error.h"

extern "C" const char __executable_start;  // the linker's: where this program was loaded

namespace ladder::classroom {
namespace {

using nlohmann::json;

simt::ElementType type_named(const std::string& name) {
    if (name == "f32") return simt::ElementType::f32;
    if (name == "i32") return simt::ElementType::i32;
    if (name == "f16") return simt::ElementType::f16;
    if (name == "bf16") return simt::ElementType::bf16;
    throw std::logic_error("there is no element type " + name);
}

/// Elements of a result that no kernel wrote: a fault, as `check_written` has it for host entries.
void check_written(const Problem::Tensor& output) {
    const std::vector<bool> written =
        simt::written_elements(output.named->data(), output.bytes(), output.element_bytes());
    std::size_t missing = 0, first = 0, last = 0;
    for (std::size_t n = 0; n < written.size(); ++n) {
        if (written[n]) continue;
        if (missing++ == 0) first = n;
        last = n;
    }
    if (missing == 0) return;
    const auto place = [&](std::size_t element) {
        std::string text;
        for (std::size_t d = output.extents.size(); d-- > 0;) {
            text = std::to_string(element % std::size_t(output.extents[d])) + (text.empty() ? "" : ", ") + text;
            element /= std::size_t(output.extents[d]);
        }
        return output.name + "(" + text + ")";
    };
    throw simt::MachineError(
        {.fault = simt::Fault::partial_write,
         .kernel = "the exercise",
         .what = std::to_string(missing) + " of " + std::to_string(written.size()) + " elements of " + output.name +
                 " were never written by a kernel, from " + place(first) + " to " + place(last),
         .advice = "every element of a result needs a thread that writes it through its tensor: look "
                   "at the size of the grid, at the loops' ends and at the guards of the last tile"});
}

json fault(std::string kind, std::string name, std::string message) {
    constexpr std::size_t kMost = 8192;  // an exception may say anything
    if (message.size() > kMost) message.resize(kMost);
    return {{"kind", std::move(kind)}, {"name", std::move(name)}, {"message", std::move(message)}};
}

/// Of what is being caught: "int".
std::string name_of_exception() {
    const std::type_info* const type = abi::__cxa_current_exception_type();
    if (!type) return "something unknown";
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(type->name(), nullptr, nullptr, &status),
                                                           &std::free);
    return name ? name.get() : type->name();
}

json to_json(const simt::LaunchRecord& launch) {
    json traffic = json::object();
    for (const simt::TensorTraffic& tensor : launch.counters.tensors)
        traffic[tensor.tensor] = {{"read", tensor.bytes_read},
                                  {"written", tensor.bytes_written},
                                  {"sectors_read", tensor.sectors_read},
                                  {"sectors_written", tensor.sectors_written}};
    return {{"kernel", launch.kernel},
            {"blocks", launch.blocks()},
            {"threads", launch.block[0] * launch.block[1] * launch.block[2]},
            {"shared_bytes", launch.shared_bytes_per_block},
            {"traffic", traffic},
            {"barriers", launch.counters.block_barriers},
            {"wavefronts", launch.counters.shared_wavefronts},
            {"wavefronts_ideal", launch.counters.shared_wavefronts_ideal}};
}

Problem problem_from(const Message& message) {
    simt::set_cpu_device(simt::device_from(simt::device_profile(message.words.at("device").get<std::string>())));
    Problem problem;
    for (const auto& [name, value] : message.words.at("numbers").items()) problem.add_number(name, value.get<double>());
    std::size_t blob = 0;
    for (const json& input : message.words.at("inputs"))
        problem.add_input(input.at("name"), type_named(input.at("type")), input.at("extents"),
                          message.blobs.at(blob++).data());
    for (const json& output : message.words.at("outputs"))
        problem.add_output(output.at("name"), type_named(output.at("type")), output.at("extents"));
    return problem;
}

Message solve(const Message& message) {
    Problem problem = problem_from(message);
    Message reply;
    reply.words["fault"] = nullptr;
    const simt::LaunchLog log;
    try {
        run(problem);
        for (const Problem::Tensor& output : problem.outputs()) check_written(output);
    } catch (const simt::MachineError& error) {
        reply.words["fault"] = fault("machine", std::string(simt::name_of(error.report().fault)), error.what());
        for (const std::uintptr_t call : error.report().calls)
            reply.words["fault"]["calls"].push_back(call - reinterpret_cast<std::uintptr_t>(&__executable_start));
    } catch (const simt::LaunchError& error) {
        reply.words["fault"] = fault("launch", "refused launch", error.what());
    } catch (const std::exception& error) {
        reply.words["fault"] = fault("exception", "exception", error.what());
    } catch (...) {
        reply.words["fault"] = fault("exception", "exception", "it threw " + name_of_exception());
    }
    reply.words["launches"] = json::array();
    for (const simt::LaunchRecord& launch : log.records()) reply.words["launches"].push_back(to_json(launch));
    reply.words["answers"] = json::object();
    for (const auto& [name, value] : problem.answers()) reply.words["answers"][name] = value;
    reply.words["token"] = message.words.at("token");
    if (!reply.words["fault"].is_null()) return reply;
    for (const Problem::Tensor& output : problem.outputs()) {
        const auto* data = static_cast<const std::byte*>(output.memory.data());
        reply.blobs.emplace_back(data, data + output.bytes());
    }
    return reply;
}

const std::optional<Message>& problem_message() {
    static const std::optional<Message> message = decode(read_all(0));
    return message;
}

/// Before anything of the learner's file can run, its constructors included: 101 is the first place that the compiler
/// does not keep for itself.
[[gnu::constructor(101)]] void go_inside() {
    if (problem_message()) enter_sandbox();
}

}  // namespace
}  // namespace ladder::classroom

int main() {
    using namespace ladder::classroom;
    if (!problem_message()) {
        std::fputs("this program is started by the judge of the exercises (./ladder learn check)\n", stderr);
        return 2;
    }
    write_all(kReplyDescriptor, encode(solve(*problem_message())));
    std::fflush(stdout);
    std::_Exit(0);  // whatever else was to happen at the end
}
