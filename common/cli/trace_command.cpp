#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>

#include "common/cli/command.h"
#include "common/cli/terminal.h"
#include "common/cli/trace/json.h"
#include "common/cli/trace/page.h"
#include "common/cli/trace/run.h"
#include "common/rung/profile.h"
#include "common/simt/device/device.h"

namespace ladder::cli {
namespace {

/// What to trace: the rungs of one phase, or one of them, on random tensors.
struct TraceChoice {
    int phase = 0;
    std::string kernel = {};  ///< an entry's name; empty: all of the phase
    ProfileProblem problem{.heads = 1};
    std::optional<std::int64_t> splits = {};  ///< chosen from the problem if absent
};

const char* dtype_name(torch::ScalarType type) {
    return type == torch::kFloat32 ? "float32" : type == torch::kFloat16 ? "float16" : "bfloat16";
}

/// All that the phase has to trace, of elements of one type.
std::vector<Rung> rungs_to_trace(const TraceChoice& choice, const Phase& phase, torch::ScalarType dtype) {
    ProfileProblem problem = choice.problem;
    problem.dtype = dtype;
    RungInput input = random_input(problem, phase, torch::kCPU);
    input.splits = choice.splits;
    std::vector<Rung> rungs = rungs_of(phase, input);
    if (!phase.traced_besides) return rungs;
    for (Rung& rung : phase.traced_besides(input)) {
        rung.phase = phase.number;
        rungs.push_back(std::move(rung));
    }
    return rungs;
}

/// The rungs that `choice` names, ready to run. Throws std::invalid_argument where it names none.
std::vector<Rung> rungs_to_trace(const TraceChoice& choice) {
    const Phase& phase = phase_numbered(choice.phase);
    if (choice.splits && !phase.splits_keys)
        throw std::invalid_argument(fmt::format("--splits: phase {} splits nothing; only {} takes it", choice.phase,
                                                phases_that(&Phase::splits_keys)));
    const auto asked_for = choice.problem.dtype;
    if (choice.kernel.empty()) return rungs_to_trace(choice, phase, asked_for.value_or(phase.dtypes.front()));
    // Not every entry takes the phase's first type.
    std::vector<std::string> names;
    for (const torch::ScalarType dtype : asked_for ? std::vector{*asked_for} : phase.dtypes) {
        std::vector<Rung> rungs = rungs_to_trace(choice, phase, dtype);
        for (const Rung& rung : rungs)
            if (std::ranges::find(names, rung.kernel) == names.end()) names.push_back(rung.kernel);
        std::erase_if(rungs, [&](const Rung& rung) { return rung.kernel != choice.kernel; });
        if (!rungs.empty()) return rungs;
    }
    throw std::invalid_argument(fmt::format("--kernel: phase {} has no {}{}; it has {}", choice.phase, choice.kernel,
                                            asked_for ? fmt::format(" for {}", dtype_name(*asked_for)) : "",
                                            fmt::join(names, ", ")));
}

/// What a page may weigh, all its runs together, before blocks are counted only.
constexpr std::size_t kPageBudget = std::size_t{1800} << 10;

struct Options {
    TraceChoice choice;
    Target target{.device = DeviceChoice::cpu};
    std::vector<std::string> beside;
    std::vector<std::uint64_t> blocks;
    std::string file = "trace.html";
};

void add_choice(CLI::App& command, TraceChoice& choice) {
    command.add_option("PHASE", choice.phase, fmt::format("phase to trace, {}", phase_numbers()))
        ->type_name("")
        ->required()
        ->check(phase_number());
    ProfileProblem& p = choice.problem;
    const auto count = [&](const char* name, auto& value, std::int64_t most, const char* help) {
        return command.add_option(name, value, help)->check(CLI::Range(std::int64_t{1}, most))->type_name("COUNT");
    };
    command.add_option("--kernel", choice.kernel, "one entry of the phase, as the tour names it; all if not given")
        ->type_name("NAME");
    count("--batch", p.batch, 65535, "sequences")->capture_default_str();
    count("--heads", p.heads, 65535, "query heads")->capture_default_str();
    count("--kv-heads", p.kv_heads, 65535, "key and value heads; as many as query heads if not given");
    count("--keys", p.keys, 1 << 20, "keys N")->capture_default_str();
    count("--queries", p.queries, 1 << 20, "queries; N if not given, 1 for the kernels made for few");
    count("--head-dim", p.head_dim, 256, "head dimension D")->capture_default_str();
    const std::string splits =
        fmt::format("pieces that {} splits the keys into; chosen if not given", phases_that(&Phase::splits_keys));
    count("--splits", choice.splits, 1024, splits.c_str());
    const std::map<std::string, torch::ScalarType> types = {
        {"f32", torch::kFloat32}, {"f16", torch::kFloat16}, {"bf16", torch::kBFloat16}};
    add_named(command, "--dtype", p.dtype, types, "f32, f16 or bf16; f32 if the phase and the kernel take it", "");
    add_causal(command, p.causal);
}

/// "4 --no-causal": another phase, with whatever differs from the first problem.
TraceChoice choice_beside(const TraceChoice& first, const std::string& text) {
    TraceChoice choice = first;
    choice.kernel.clear();
    CLI::App words("", "--beside");
    words.set_help_flag();
    add_choice(words, choice);
    try {
        words.parse(text);
    } catch (const CLI::ParseError& error) {
        throw std::invalid_argument(
            fmt::format("--beside \"{}\": {}; give a phase, and what differs, as in --beside \"4 --no-causal\"", text,
                        error.what()));
    }
    if (!phase_numbered(choice.phase).splits_keys && text.find("--splits") == std::string::npos) choice.splits.reset();
    return choice;
}

void write(const std::string& text, const std::string& file) {
    std::ofstream stream(file, std::ios::binary);
    stream << text;
    if (!stream.flush())
        throw std::runtime_error("-o: \"" + file + "\" cannot be written; name a file in a folder that exists");
}

std::size_t recorded_blocks(const simt::LaunchTrace& launch) {
    return std::size_t(std::ranges::count(launch.blocks, true, &simt::TracedBlock::recorded));
}

/// Throws std::invalid_argument where none of the blocks that were asked for is one of the run's.
void require_recorded_blocks(const TracedRun& run) {
    std::size_t most = 0;
    for (const simt::LaunchTrace& launch : run.launches) {
        if (recorded_blocks(launch) > 0) return;
        most = std::max(most, launch.blocks.size());
    }
    if (most > 0)
        throw std::invalid_argument(
            fmt::format("--block: {} has no such block; its blocks have the numbers 0 to {}", run.kernel, most - 1));
}

std::string blocks_text(const TracedRun& run) {
    std::size_t all = 0, recorded = 0;
    for (const simt::LaunchTrace& launch : run.launches) {
        all += launch.blocks.size();
        recorded += recorded_blocks(launch);
    }
    if (recorded == all) return fmt::format("{} block{}", all, all == 1 ? "" : "s");
    return fmt::format("{} of {} blocks, the others counted", recorded, all);
}

int trace(Options& options) {
    if (options.target.choose().is_cuda())
        throw std::invalid_argument("trace: a GPU tells nobody what it does; leave --device out, or add --device cpu");
    if (!simt::cpu_machine_checks())
        throw std::invalid_argument(
            "trace: this program was built with LADDER_CHECKS=OFF, and sees no access; use a build with checks, "
            "such as the one that ./ladder makes");
    std::vector<TraceChoice> choices = {options.choice};
    for (const std::string& text : options.beside) choices.push_back(choice_beside(options.choice, text));
    std::vector<std::pair<Rung, const TraceChoice*>> rungs;
    std::optional<std::size_t> first_beside;
    for (const TraceChoice& choice : choices) {
        if (&choice != &choices.front() && !first_beside) first_beside = rungs.size();
        for (Rung& rung : rungs_to_trace(choice)) rungs.emplace_back(std::move(rung), &choice);
    }

    std::vector<TracedRun> runs;
    for (const auto& [rung, choice] : rungs) {
        {
            const Progress progress(fmt::format("phase {}: {} …", rung.phase, rung.kernel));
            runs.push_back(trace_rung(rung, {.blocks = options.blocks, .budget_bytes = kPageBudget / rungs.size()}));
        }
        TracedRun& run = runs.back();
        run.title = phase_numbered(run.phase).title;
        run.dtype = dtype_name(rung.inputs.front().second.scalar_type());
        run.causal = rung.causal;
        run.splits = choice->splits;
        if (!options.blocks.empty()) require_recorded_blocks(run);
        fmt::print("{:<22} {:<44} {}\n", run.kernel, blocks_text(run),
                   run.right() ? styled(Style::good, "right")
                               : styled(run.refused() ? Style::note : Style::bad, run.verdict()));
        if (!run.words.empty()) fmt::print("\n{}\n\n", run.words);
    }
    Json json = trace_json(runs);
    if (first_beside) json["beside"] = *first_beside;
    const bool bare = std::filesystem::path(options.file).extension() == ".json";
    const std::string text = bare ? json.dump() + "\n" : trace_page(json);
    write(text, options.file);
    fmt::print("{} ({}){}\n", options.file, human_bytes(text.size()),
               bare ? "" : ": open it in a browser; it needs no network");
    return std::ranges::all_of(runs, [](const TracedRun& run) { return run.right() || run.refused(); }) ? 0 : 1;
}

}  // namespace

void add_command(CLI::App& app, Action& action) {
    const auto options = std::make_shared<Options>();
    CLI::App& command = *app.add_subcommand("trace", "A page that plays what a run did, step by step");
    command.footer(
        "Runs the kernels on the CPU machine and writes one page that needs no network: which tiles are read and "
        "written,\n"
        "shared memory as it fills, scores, m, l and the rescale factor of each row, bytes, barriers. Where a kernel "
        "has "
        "a\n"
        "producer and consumers: who waits for whom, stages that fill and drain, products under way. A wrong kernel is "
        "traced\n"
        "up to where the machine diagnosed it, and the page opens there; the exit code is then 1.\n"
        "How to read the page, and the format of a trace: docs/trace.md.\n\n"
        "  ./ladder trace 3                                     phase 3 on one head of 256 tokens\n"
        "  ./ladder trace 2 --beside 3 -o fa1-and-fa2.html      two runs in step\n"
        "  ./ladder trace 4 --beside \"4 --no-causal\"            with and without a mask\n"
        "  ./ladder trace 5 --keys 1024 --splits 1 --beside \"5 --splits 8\"\n"
        "  ./ladder trace 8 --kernel hopper_backward            one entry of a phase\n"
        "  ./ladder trace 3 -o trace.json                       the trace alone, as data");
    add_choice(command, options->choice);
    command.add_option("--beside", options->beside, "a second run to play in step: a phase, and options that differ")
        ->type_name("\"PHASE [options]\"")
        ->allow_extra_args(false);
    command
        .add_option("--block", options->blocks,
                    "blocks to record, by number; the others are only counted. As many as fit if not given")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("N,…");
    options->target.add_options(command);
    command.add_option("-o,--output", options->file, "the page to write; with the ending .json, the trace alone")
        ->type_name("FILE")
        ->capture_default_str();
    command.callback([options, &action] { action = [options] { return trace(*options); }; });
}

}  // namespace ladder::cli
