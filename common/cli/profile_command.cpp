#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "common/cli/command.h"
#include "common/cli/profile_json.h"
#include "common/cli/profile_plot.h"
#include "common/cli/profile_report.h"
#include "common/cli/terminal.h"
#include "common/simt/device/device.h"

namespace ladder::cli {
namespace {

struct Options {
    ProfileRequest request;
    Target target{.device = DeviceChoice::cpu};
    std::string json, plot;
    std::optional<std::int64_t> heads = {};
    const CLI::Option* keys = nullptr;
    bool sweep = false;
    std::vector<std::int64_t> lengths = {256, 512, 1024, 2048};
    std::vector<std::int64_t> shared_kib = {8, 16, 32, 64};
};

int profile(Options& options) {
    ProfileRequest& request = options.request;
    request.device = options.target.choose();
    request.profile = options.target.profile;
    if (!request.device.is_cuda() && !simt::cpu_machine_checks())
        throw std::invalid_argument(
            "profile: this program was built with LADDER_CHECKS=OFF, and counts nothing; use a build with checks, such "
            "as "
            "the one that ./ladder makes");
    const bool sweeping = options.sweep || !options.plot.empty();
    if (sweeping && options.keys->count() > 0)
        throw std::invalid_argument(
            "--keys: --sweep varies them; name the lengths with --lengths 256,512, or leave one out");
    if (sweeping && request.device.is_cuda())
        throw std::invalid_argument("--sweep, --plot: a GPU counts nothing; add --device cpu, or leave --device out");

    request.problem.heads = options.heads.value_or(sweeping ? 1 : 2);
    std::vector<std::int64_t> shared_bytes;
    for (const std::int64_t kib : options.shared_kib) shared_bytes.push_back(kib * 1024);

    print_profile_header(request);
    if (!sweeping) print_profile_problem(request.problem);
    std::vector<RungProfile> rungs;
    std::vector<Sweep> sweeps;
    for (const Phase& phase : phases()) {
        if (!request.phases.empty() && std::ranges::count(request.phases, phase.number) == 0) continue;
        fmt::print("\n{}\n", styled(Style::bold, fmt::format("Phase {}   {}", phase.number, phase.title)));
        if (sweeping) {
            for (Sweep& sweep : sweep_phase(phase, request, options.lengths, shared_bytes)) {
                print_sweep(sweep);
                sweeps.push_back(std::move(sweep));
            }
            continue;
        }
        for (const Rung& rung : rungs_to_profile(request, phase)) {
            {
                const Progress progress(fmt::format("phase {}: {} …", phase.number, rung.kernel));
                rungs.push_back(profile_rung(rung, request));
            }
            print_rung_profile(rungs.back(), request);
        }
    }
    if (!options.json.empty()) write_profile_json(request, rungs, sweeps, options.json);
    if (!options.plot.empty())
        for (const std::string& figure : plot_sweeps(sweeps, options.plot)) fmt::print("\n{}", figure);
    if (!options.plot.empty()) fmt::print("\n");
    return 0;
}

}  // namespace

void add_command(CLI::App& app, Action& action) {
    const auto options = std::make_shared<Options>();
    CLI::App& command = *app.add_subcommand("profile", "What a profiler would count, kernel by kernel, without a GPU");
    command.footer(
        "For each kernel: bytes and 32-byte sectors of every tensor, how often it is moved as a whole, coalescing, "
        "shared\n"
        "memory and bank conflicts, barriers, occupancy and what limits it, and FLOPs per byte against the device's "
        "ridge.\n"
        "What the counters mean, and what no model of a GPU can know: docs/counters.md.\n\n"
        "  ./ladder profile 3                              phase 3 on 2 heads of 256 tokens, float32\n"
        "  ./ladder profile 2 3 --keys 512 --dtype f16     another problem\n"
        "  ./ladder profile 1 2 3 --sweep                  how traffic grows with N, and with shared memory\n"
        "  ./ladder profile 1 2 3 --plot figures           the same, drawn");
    add_phases(command, options->request.phases, "profile");
    options->target.add_options(command);
    ProfileProblem& p = options->request.problem;
    const auto count = [&](const char* name, auto& value, std::int64_t most, const char* help) {
        return command.add_option(name, value, help)->check(CLI::Range(std::int64_t{1}, most))->type_name("COUNT");
    };
    count("--batch", p.batch, 65535, "sequences")->capture_default_str();
    count("--heads", options->heads, 65535, "query heads; 2, or 1 with --sweep")->default_str("");
    count("--kv-heads", p.kv_heads, 65535, "key and value heads; as many as query heads if not given");
    options->keys = count("--keys", p.keys, 1 << 20, "keys N")->capture_default_str();
    count("--queries", p.queries, 1 << 20, "queries; N if not given, 1 for the kernels made for few");
    count("--head-dim", p.head_dim, 256, "head dimension D")->capture_default_str();
    const std::map<std::string, torch::ScalarType> types = {
        {"f32", torch::kFloat32}, {"f16", torch::kFloat16}, {"bf16", torch::kBFloat16}};
    add_named(command, "--dtype", p.dtype, types, "f32, f16 or bf16; f32 where a phase takes it", "");
    add_causal(command, p.causal);
    command.add_flag("--sweep", options->sweep, "instead: traffic over lengths N, and over shared memory M");
    command.add_option("--lengths", options->lengths, "the lengths N of --sweep")
        ->check(CLI::Range(1, 1 << 20).description(""))
        ->delimiter(',')
        ->type_name("N,…")
        ->capture_default_str();
    command.add_option("--shared-kib", options->shared_kib, "for --sweep: the KiB of shared memory per block")
        ->check(CLI::Range(1, 1024).description(""))
        ->delimiter(',')
        ->type_name("KIB,…")
        ->capture_default_str();
    command.add_option("--plot", options->plot, "--sweep, drawn into this folder as SVG (needs gnuplot)")
        ->type_name("DIR");
    command.add_option("--json", options->json, "also write everything to this file")->type_name("FILE");
    command.callback([options, &action] { action = [options] { return profile(*options); }; });
}

}  // namespace ladder::cli
