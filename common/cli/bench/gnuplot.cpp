#include "common/cli/bench/gnuplot.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "common/plots/look.h"

namespace ladder::cli::bench {
namespace {

/// In single quotes gnuplot takes everything but the quote as it is.
std::string quoted(const std::string& text) {
    std::string result = "'";
    for (const char c : text) result += c == '\'' ? "''" : std::string(1, c);
    return result + "'";
}

}  // namespace

void require_gnuplot() {
    if (std::system("command -v gnuplot >/dev/null 2>&1") == 0) return;
    throw std::runtime_error(
        "--plot: there is no gnuplot; install it (sudo apt-get install gnuplot-nox), or measure with --json FILE and "
        "draw "
        "elsewhere with --from FILE --plot DIR");
}

std::string draw(const Plot& plot, const std::string& folder) {
    if (plot.script.empty()) return fmt::format("{}: not drawn: {}", plot.file, plot.not_drawn);
    const std::filesystem::path path = std::filesystem::path(folder) / plot.file;
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error)
        throw std::runtime_error("--plot: \"" + folder +
                                 "\" is no folder and cannot be made into one: " + error.message());
    std::FILE* gnuplot = popen("gnuplot", "w");
    if (!gnuplot) throw std::runtime_error("--plot: gnuplot cannot be started");
    const std::string script = fmt::format("set output {}\n{}", quoted(path.string()), plot.script);
    std::fwrite(script.data(), 1, script.size(), gnuplot);
    const int status = pclose(gnuplot);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        throw std::runtime_error("--plot: gnuplot could not draw " + path.string() + "; it says why above");
    std::stringstream drawn;
    drawn << std::ifstream(path).rdbuf();
    std::ofstream(path) << plots::in_the_look_of_the_book(drawn.str(), plot.title);
    return path.string();
}

}  // namespace ladder::cli::bench
