#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>

#include "common/cli/bench/bench.h"
#include "common/cli/bench/gnuplot.h"
#include "common/cli/bench/plots.h"
#include "common/cli/command.h"
#include "common/cli/terminal.h"

namespace ladder::cli {
namespace {

struct Options {
    bench::Request request = {};
    Target target = {};
    std::string from = {};   ///< a file to read instead of measuring
    std::string plots = {};  ///< a folder to draw into
};

bench::Report read_report(const std::string& file) {
    std::ifstream stream(file);
    const std::string text(std::istreambuf_iterator<char>(stream), {});
    if (!stream) throw std::runtime_error("--from: \"" + file + "\" cannot be read");
    return bench::from_json(text, "--from: \"" + file + "\"");
}

int run_bench(Options& options) {
    if (!options.plots.empty()) bench::require_gnuplot();  // before minutes of measuring, not after
    bench::Report report;
    if (options.from.empty()) {
        options.request.device = options.target.choose();
        options.request.profile = options.target.profile;
        report = bench::run(options.request);
    } else {
        report = read_report(options.from);
    }
    fmt::print("\n{}", bench::to_text(report));
    if (!options.plots.empty()) {
        fmt::print("\n");
        for (const bench::Plot& plot : bench::plots_of(report)) fmt::print("  {}\n", bench::draw(plot, options.plots));
    }
    return report.wrong() + report.broken() == 0 ? 0 : 1;
}

}  // namespace

void add_command(CLI::App& app, Action& action) {
    const auto options = std::make_shared<Options>();
    CLI::App& command =
        *app.add_subcommand("bench", "Every kernel's speed, beside what PyTorch offers for the same work");
    command.footer(
        "Ours and PyTorch's take turns in one process, on inputs that the cache does not hold. Shown are the medians,\n"
        "and their share of what the device reached at best in the same run, asked for one thing only.\n"
        "Every result is checked.\n"
        "float32 is never rounded to tf32. On the CPU machine times are those of an interpreter: a way to try it out.\n"
        "The exit code is 0 only if every kernel measured gave the right answer.\n\n"
        "  ./ladder bench --quick                          one case for each rung, and a few more\n"
        "  ./ladder bench 3 4 --json b.json --plot plots   phases 3 and 4; all figures to a file; plots as SVG\n"
        "  ./ladder bench --from b.json --plot plots       the same tables and plots again, from the file");
    add_phases(command, options->request.phases, "measure");
    options->target.add_options(command);
    command.add_flag("--quick", options->request.quick, "a small part, in seconds instead of minutes");
    command.add_option("--seconds", options->request.seconds, "begin no further case after so many seconds")
        ->check(CLI::PositiveNumber.description(""))
        ->type_name("N");
    CLI::Option* json =
        command.add_option("--json", options->request.json, "write everything measured to this file, case by case")
            ->type_name("FILE");
    command.add_option("--plot", options->plots, "draw the plots, as SVG, into this folder (needs gnuplot)")
        ->type_name("DIR");
    command.add_option("--from", options->from, "measure nothing: show what this file of an earlier run holds")
        ->type_name("FILE")
        ->excludes(json);
    command.callback([options, &action] { action = [options] { return run_bench(*options); }; });
}

}  // namespace ladder::cli
