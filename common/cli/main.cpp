#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "common/cli/command.h"

namespace ladder::cli {
namespace {

int run(int argc, char** argv) {
    CLI::App app("FlashAttention, one rung at a time, on a GPU or on the checked CPU machine.", "ladder");
    app.require_subcommand(1);
    app.failure_message(CLI::FailureMessage::help);
    Action action;
    add_command(app, action);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error);
    }
    return action();
}

}  // namespace
}  // namespace ladder::cli

int main(int argc, char** argv) {
    try {
        return ladder::cli::run(argc, argv);
    } catch (const std::exception& error) {
        std::fflush(stdout);
        fmt::print(stderr, "ladder: {}\n", error.what());
        return 2;
    }
}
