#include <memory>

#include "common/cli/command.h"
#include "common/cli/overflow.h"

namespace ladder::cli {

void add_overflow(CLI::App& app, Action& action) {
    struct Options {
        OverflowRequest request;
        Target target;
    };
    const auto options = std::make_shared<Options>();
    CLI::App& command = *app.add_subcommand("overflow", "How far attention gets with whole rows in shared memory");
    command.footer(
        "The table of sequence lengths against bytes of shared memory, the longest that runs, and the next one really\n"
        "launched, with the error it gives.\n\n"
        "  ./ladder overflow --profile rtx5060ti                     N = 128 runs, N = 256 does not\n"
        "  ./ladder overflow --profile h200 --dtype f32 --head-dim 64");
    options->target.add_options(command);
    const std::map<std::string, simt::ElementType> types = {
        {"f16", simt::ElementType::f16}, {"bf16", simt::ElementType::bf16}, {"f32", simt::ElementType::f32}};
    add_named(command, "--dtype", options->request.type, types, "f16, bf16 or f32", "f16");
    command.add_option("--head-dim", options->request.head_dim, "head dimension D, 1 to 256")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    command.add_option("--block-rows", options->request.block_rows, "query rows per block M, 1 to 1024")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    command.callback([options, &action] {
        action = [options] {
            options->request.device = options->target.choose();
            return run_overflow(options->request);
        };
    });
}

}  // namespace ladder::cli
