#include "common/cli/profile_plot.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "common/plots/look.h"

extern char** environ;

namespace ladder::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array kColours = {"#3b82d0", "#d9822b", "#2f9e6e", "#c0508f",
                                 "#8a6fd1", "#b59a1c", "#5aa0a8", "#c9554d"};

void write(const fs::path& file, const std::string& text) {
    std::ofstream stream(file);
    stream << text;
    if (!stream.flush())
        throw std::runtime_error(
            fmt::format("--plot: \"{}\" cannot be written; name a folder that you may write to", file.string()));
}

/// One block of lines for each sweep, two empty lines between, as gnuplot's `index` has it.
std::string data_of(std::span<const Sweep* const> sweeps) {
    std::string text;
    for (const Sweep* sweep : sweeps) {
        text += fmt::format("# phase {}, {}, {}: value, bytes counted, bytes by formula\n", sweep->phase, sweep->kernel,
                            sweep->fixed);
        for (const SweepPoint& p : sweep->points)
            text += fmt::format("{} {} {}\n", p.value, p.bytes, p.bytes_by_formula);
        text += "\n\n";
    }
    return text;
}

std::string drawing_of(std::span<const Sweep* const> sweeps, const std::string& name) {
    const bool length = sweeps.front()->variable == SweepVariable::length;
    std::string text = fmt::format(
        "# gnuplot {0}.gp\n"
        "set terminal svg size 900,560 dynamic enhanced font 'Arial,15' name 'traffic'\n"
        "set output '{0}.svg'\n"
        "set encoding utf8\n"
        "set border 3 lc rgb '{1}'\n"
        "set tics nomirror textcolor rgb '{1}'\n"
        "set grid lc rgb '{2}'\n"
        "set key outside right Left reverse samplen 2 textcolor rgb '{1}' noenhanced\n"
        "set title '{3}' textcolor rgb '{1}'\n"
        "set xlabel '{4}' textcolor rgb '{1}'\n"
        "set ylabel 'bytes read and written' textcolor rgb '{1}'\n"
        "set logscale xy 2\n"
        "set format y '%.0b %B'\n"
        "set xtics ({5})\n",
        name, plots::kInk, "#a0" + std::string(plots::kInk).substr(1),
        length ? "Traffic to global memory: points counted, lines as predicted"
               : fmt::format("The same at {}: points counted, lines as predicted", sweeps.front()->fixed),
        length ? "N, keys" : "M, bytes of shared memory that a block may have", [&] {
            std::string tics;
            for (const SweepPoint& p : sweeps.front()->points)
                tics += fmt::format("{}'{}' {}", tics.empty() ? "" : ", ",
                                    length ? std::to_string(p.value) : fmt::format("{} KiB", p.value / 1024), p.value);
            return tics;
        }());
    text += "plot ";
    for (std::size_t i = 0; i < sweeps.size(); ++i) {
        const Sweep& s = *sweeps[i];
        const char* colour = kColours[i % kColours.size()];
        text += fmt::format(
            "{0}'{1}.dat' index {2} using 1:2 with points pt {3} ps 1.1 lc rgb '{4}' title '{5}: {6:.2f}', \\\n"
            "     [{7}:{8}] {9} * (x / {8}.0) ** ({10}) with lines dt 2 lw 1.5 lc rgb '{4}' title '  predicted {10}'",
            i == 0 ? "" : ", \\\n     ", name, i, i % 2 == 0 ? 7 : 5, colour, s.kernel, s.slope(),
            s.points.front().value, s.points.back().value, predicted_bytes(s, s.points.back().value),
            s.predicted_slope);
    }
    return text + "\n";
}

void run_gnuplot(const fs::path& folder, const std::string& drawing) {
    const std::string by_hand = fmt::format("gnuplot {}, in that folder", drawing);
    posix_spawn_file_actions_t in_folder;
    posix_spawn_file_actions_init(&in_folder);
    posix_spawn_file_actions_addchdir_np(&in_folder, folder.c_str());
    const std::array<const char*, 3> arguments = {"gnuplot", drawing.c_str(), nullptr};
    pid_t child = 0;
    const int error =
        posix_spawnp(&child, "gnuplot", &in_folder, nullptr, const_cast<char* const*>(arguments.data()), environ);
    posix_spawn_file_actions_destroy(&in_folder);
    if (error != 0)
        throw std::runtime_error(
            fmt::format("--plot: there is no gnuplot to draw with; the points and the drawing are "
                        "in \"{}\". sudo apt-get install gnuplot-nox, then: {}",
                        folder.string(), by_hand));
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        throw std::runtime_error(
            fmt::format("--plot: gnuplot failed on what is in \"{}\"; to see why: {}", folder.string(), by_hand));
}

void give_look(const fs::path& figure) {
    std::stringstream text;
    text << std::ifstream(figure).rdbuf();
    const bool length = figure.stem() == "traffic_over_N";
    write(figure, plots::in_the_look_of_the_book(
                      text.str(), length ? "Traffic to global memory over the number of keys"
                                         : "Traffic to global memory over the shared memory of a block"));
}

}  // namespace

std::vector<std::string> plot_sweeps(std::span<const Sweep> sweeps, const std::string& folder_name) {
    const fs::path folder = fs::absolute(folder_name);
    std::error_code error;
    fs::create_directories(folder, error);
    if (error)
        throw std::runtime_error(fmt::format("--plot: \"{}\" cannot be made: {}; name a folder that you may write to",
                                             folder_name, error.message()));
    std::vector<std::string> figures;
    for (const auto& [variable, name] : {std::pair(SweepVariable::length, "traffic_over_N"),
                                         std::pair(SweepVariable::shared_memory, "traffic_over_M")}) {
        std::vector<const Sweep*> drawn;
        for (const Sweep& sweep : sweeps)
            if (sweep.variable == variable && sweep.points.size() >= 2) drawn.push_back(&sweep);
        if (drawn.empty()) continue;
        write(folder / fmt::format("{}.dat", name), data_of(drawn));
        write(folder / fmt::format("{}.gp", name), drawing_of(drawn, name));
        figures.push_back((folder / fmt::format("{}.svg", name)).string());
    }
    for (const std::string& figure : figures) {
        run_gnuplot(folder, fs::path(figure).stem().string() + ".gp");
        give_look(figure);
    }
    return figures;
}

}  // namespace ladder::cli
