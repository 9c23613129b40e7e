#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include "common/cli/command.h"
#include "common/cli/ring/rank.h"
#include "common/cli/ring/report.h"
#include "common/distributed/launch.h"

namespace ladder::cli {
namespace {

using namespace ring;

constexpr std::int64_t kTokensOnCpu = 64, kTokensOnGpu = 4096;  // a rank

struct Options {
    Plan plan;
    std::optional<std::int64_t> tokens;
    DeviceChoice device = DeviceChoice::automatic;
    bool no_overlap = false;
};

RingDemo demo_of_this_program() {
    for (const Phase& phase : phases())
        if (phase.ring) return phase.ring();
    throw std::runtime_error("ring: no phase of this program has ring attention");
}

/// Whether this machine has so many GPUs, without a call of CUDA: the process that starts the ranks computes nothing.
bool has_gpus(int count) {
    for (int n = 0; n < count; ++n)
        if (!std::filesystem::exists("/dev/nvidia" + std::to_string(n))) return false;
    return true;
}

void settle(Options& options, const std::optional<distributed::Place>& place) {
    Plan& plan = options.plan;
    const bool can_use_gpus = options.device != DeviceChoice::cpu && has_gpus(1) &&
                              distributed::missing_for(distributed::EngineKind::nccl).empty();
    // Ranks on other machines cannot be seen from here, and all must decide alike.
    const bool each_has_one = has_gpus(place && !place->local ? 1 : plan.ranks);
    plan.on_gpus = options.device == DeviceChoice::cuda || (can_use_gpus && each_has_one);
    const std::string missing =
        distributed::missing_for(plan.on_gpus ? distributed::EngineKind::nccl : distributed::EngineKind::gloo);
    const std::string too_few =
        can_use_gpus && !each_has_one ? fmt::format("no GPU for each of {} ranks, and for CPUs ", plan.ranks) : "";
    if (!missing.empty()) throw std::runtime_error("ring: " + too_few + missing);
    if (plan.on_gpus && (plan.link || !plan.trace.empty()))
        throw std::invalid_argument(
            "ring: --link and --trace follow ranks with CPU machines (--device cpu); on GPUs use Nsight Systems, since "
            "their kernels and messages go on when the host has gone on");
    plan.sizes.query_length = plan.sizes.key_length =
        options.tokens.value_or(plan.ranks * (plan.on_gpus ? kTokensOnGpu : kTokensOnCpu));
    plan.sizes.element_bytes = std::int64_t(c10::elementSize(plan.dtype));
    plan.call.overlap = !options.no_overlap;
    if (plan.sizes.query_heads % plan.sizes.kv_heads)
        throw std::invalid_argument(
            fmt::format("ring: {} heads and {} key-value heads; the first must be a multiple of "
                        "the second",
                        plan.sizes.query_heads, plan.sizes.kv_heads));
}

/// As one rank, whoever started it. Rank 0 speaks for all.
int be_rank(const distributed::Place& place, const Plan& plan) {
    const distributed::Patience patience(std::int64_t(1e3 * plan.patience));
    const std::shared_ptr<distributed::Board> board = distributed::board_of(place, patience);
    try {
        const RingDemo demo = demo_of_this_program();
        const std::vector<RankRun> all = run_as(place, board, plan, demo);
        if (place.rank == 0) {
            fmt::print("{}", in_words(plan, demo, all));
            std::fflush(stdout);
            for (const std::string& file : {plan.json, plan.trace})
                if (!file.empty()) write_json(in_json(plan, demo, all), file);
        }
        return all_right(plan, demo, all) ? 0 : 1;
    } catch (const std::exception& error) {
        const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
        distributed::say_last_words(*board, place.rank, of_torch ? of_torch->what_without_backtrace() : error.what());
        if (place.heard) return 2;  // and the launcher says them, once for all
        throw;
    }
}

int run(Options& options) {
    const std::optional<distributed::Place> place = distributed::place_in_environment();
    if (place) options.plan.ranks = place->ranks;
    settle(options, place);
    const Plan& plan = options.plan;
    if (place) return be_rank(*place, plan);
    const std::vector<distributed::RankEnd> ends = distributed::launch_ranks(
        distributed::own_command(), plan.ranks, distributed::Patience(std::int64_t(2e3 * plan.patience)));
    const bool wrong = std::ranges::any_of(ends, [](const auto& end) { return end.exit_status == 1; });
    if (std::ranges::all_of(ends, &distributed::RankEnd::well) || wrong) return wrong ? 1 : 0;
    throw std::runtime_error("ring: " + what_failed(ends));
}

}  // namespace

void add_command(CLI::App& app, Action& action) {
    const auto options = std::make_shared<Options>();
    Plan& plan = options->plan;
    plan.sizes = {.batch = 1, .query_heads = 4, .kv_heads = 4, .head_dim = 32};
    plan.call = {.attention = {.scale = {}, .mask = Mask::causal_bottom_right}, .zigzag = true};
    CLI::App& command = *app.add_subcommand("ring", "Attention over a sequence that is cut over several ranks");
    command.footer(
        "Starts the ranks itself: processes that talk through Gloo, each with a CPU machine, or one a GPU with NCCL.\n"
        "Or let torchrun start them, on several machines too:\n\n"
        "  ./ladder ring --ranks 4\n"
        "  ./ladder ring --ranks 4 --parts contiguous            who idles under a causal mask\n"
        "  ./ladder ring --ranks 2 --tokens 32768 --dtype bf16 --heads 16 --kv-heads 16 --head-dim 128 --repeat 20\n"
        "  torchrun --no-python --nproc-per-node 4 build/common/cli/ladder-ring ring");
    const auto positive = CLI::PositiveNumber;
    command.add_option("--ranks", plan.ranks, "how many")
        ->check(CLI::Range(1, 64))
        ->capture_default_str()
        ->type_name("R");
    command.add_option("--tokens", options->tokens, "length of the whole sequence (default: 64 a rank, on GPUs 4096)")
        ->check(positive)
        ->type_name("N");
    command.add_option("--heads", plan.sizes.query_heads, "query heads")
        ->check(positive)
        ->capture_default_str()
        ->type_name("H");
    command.add_option("--kv-heads", plan.sizes.kv_heads, "key-value heads")
        ->check(positive)
        ->capture_default_str()
        ->type_name("H");
    command.add_option("--head-dim", plan.sizes.head_dim, "D")
        ->check(CLI::Range(1, 256))
        ->capture_default_str()
        ->type_name("D");
    command.add_option("--batch", plan.sizes.batch, "sequences")
        ->check(positive)
        ->capture_default_str()
        ->type_name("B");
    add_named(command, "--dtype", plan.dtype,
              std::map<std::string, torch::ScalarType>{
                  {"f32", torch::kFloat32}, {"f16", torch::kFloat16}, {"bf16", torch::kBFloat16}},
              "f32, f16 or bf16", "f32");
    add_named(command, "--mask", plan.call.attention.mask,
              std::map<std::string, Mask>{
                  {"none", Mask::none}, {"causal", Mask::causal_bottom_right}, {"top-left", Mask::causal_top_left}},
              "none, causal or top-left", "causal");
    add_named(command, "--parts", plan.call.zigzag,
              std::map<std::string, bool>{{"contiguous", false}, {"zigzag", true}}, "contiguous or zigzag", "zigzag");
    command.add_option("--way", plan.only, "ring, gather or ulysses (default: all)")
        ->check(CLI::IsMember({"ring", "gather", "ulysses"}))
        ->type_name("NAME");
    command.add_flag("--backward", plan.backward, "the gradients, too");
    command.add_flag("--no-overlap", options->no_overlap, "K and V travel before ranks compute, not while");
    command.add_option("--repeat", plan.repeats, "timed runs")->check(positive)->capture_default_str()->type_name("N");
    command.add_option("--patience", plan.patience, "seconds that one rank waits for another")
        ->check(positive)
        ->capture_default_str()
        ->type_name("S");
    command.add_option("--link", plan.link, "bytes a second that go from rank to rank: a slower link than there is")
        ->check(positive)
        ->type_name("B");
    command.add_option("--json", plan.json, "also writes what came out to this file")->type_name("FILE");
    command.add_option("--trace", plan.trace, "likewise, and when each rank worked, waited, sent and received")
        ->type_name("FILE");
    add_named(command, "--device", options->device,
              std::map<std::string, DeviceChoice>{{"cpu", DeviceChoice::cpu}, {"cuda", DeviceChoice::cuda}},
              "cpu or cuda", "cuda where there is a GPU for each rank");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace ladder::cli
