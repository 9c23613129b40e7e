#include <memory>

#include "common/cli/command.h"
#include "common/cli/tour.h"

namespace ladder::cli {

void add_command(CLI::App& app, Action& action) {
    struct Options {
        TourRequest request;
        Target target;
        std::string json;
    };
    const auto options = std::make_shared<Options>();
    CLI::App& command = *app.add_subcommand("run", "The tour: every kernel on real input, held against the reference");
    command.footer(
        "For each kernel: what it changes, shapes, blocks, shared memory per block, bytes from and to global memory\n"
        "(counted by the CPU machine, by formula on a GPU), time, error, and the error it was allowed. The exit code "
        "is 0\n"
        "only if every kernel is right.\n\n"
        "  ./ladder run 2 3                 phases 2 and 3 only\n"
        "  ./ladder run --profile gtx1080   with the limits of a GeForce GTX 1080\n"
        "  ./ladder run --json tour.json    everything that was measured, for programs");
    add_phases(command, options->request.phases, "walk");
    options->target.add_options(command);
    command.add_option("--json", options->json, "also write everything to this file")->type_name("FILE");
    command.callback([options, &action] {
        action = [options] {
            options->request.device = options->target.choose();
            options->request.profile = options->target.profile;
            const TourResult result = run_tour(options->request);
            if (!options->json.empty()) write_json(result, options->json);
            return result.passed() ? 0 : 1;
        };
    });
}

}  // namespace ladder::cli
