#include <ATen/Parallel.h>

#include <memory>
#include <random>

#include "common/cli/command.h"
#include "common/cli/fuzz.h"

namespace ladder::cli {
namespace {

constexpr double kSeconds = 60;

struct Options {
    fuzz::Request request;
    Target target;
    std::optional<double> seconds;
    std::optional<std::uint64_t> seed, problem;
    std::string json;
};

int run(Options& options) {
    fuzz::Request& request = options.request;
    request.device = options.target.choose();
    request.seed = options.seed ? *options.seed : std::random_device{}();
    if (options.problem) {
        request.first = *options.problem;
        request.problems = 1;
        request.phases.clear();  // the number says it all
        request.entries.clear();
    } else if (options.seconds || !request.problems) {
        request.time = fuzz::Seconds(options.seconds.value_or(kSeconds));
    }
    // The CPU machine has workers of its own, and the problems are small.
    at::set_num_threads(1);
    const fuzz::Result result = run_fuzz(request);
    if (!options.json.empty()) write_json(request, result, options.json);
    return result.failures == 0 && result.broken_off.empty() ? 0 : 1;
}

}  // namespace

void add_command(CLI::App& app, Action& action) {
    const auto options = std::make_shared<Options>();
    CLI::App& command = *app.add_subcommand("fuzz", "Random problems for every entry, against the reference");
    command.footer(
        "Draws problems from all that the entries take: dtypes, shapes, heads, memory layouts, masks, scales, splits,\n"
        "lengths, values that are awkward or not finite, devices to imitate. A failure is made as small as it goes, "
        "and\n"
        "printed as a test to paste; the exit code is then 1. Ctrl-C ends the run with its table.\n\n"
        "  ./ladder fuzz --seconds 600 3 4        ten minutes on phases 3 and 4\n"
        "  ./ladder fuzz --seed 7 --problem 123   one problem again");
    add_phases(command, options->request.phases, "try");
    std::vector<std::string> names;
    for (const fuzz::Entry& entry : fuzz_entries()) names.push_back(entry.name);
    command.add_option("--entry", options->request.entries, "only this entry; may be given again")
        ->check(CLI::IsMember(names).description(""))
        ->type_name("NAME")
        ->allow_extra_args(false);
    options->target.add_device(command);
    const auto positive = CLI::PositiveNumber;
    command.add_option("--seconds", options->seconds, "how long to go on (default 60)")
        ->check(positive)
        ->type_name("N");
    command.add_option("--problems", options->request.problems, "how many problems to try")
        ->check(positive)
        ->type_name("N");
    command.add_option("--seed", options->seed, "the same seed gives the same problems; drawn if not given")
        ->type_name("S");
    command.add_option("--problem", options->problem, "only the problem of this number")
        ->type_name("I")
        ->needs("--seed");
    command.add_flag("--keep-going", options->request.keep_going, "after a failure, too");
    command.add_option("--json", options->json, "also write everything to this file")->type_name("FILE");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace ladder::cli
