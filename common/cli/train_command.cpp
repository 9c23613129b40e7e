#include <ATen/Parallel.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/attention/machine.h"
#include "common/attention/rungs.h"
#include "common/cli/command.h"
#include "common/cli/launch_json.h"
#include "common/cli/terminal.h"
#include "common/plots/look.h"
#include "common/training/checkpoint.h"
#include "common/training/corpus.h"
#include "common/training/curve.h"
#include "common/training/generate.h"
#include "common/training/trainer.h"

namespace ladder::cli {
namespace {

using namespace training;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kPrompt = "The running maximum";
constexpr std::int64_t kHeldOutBatches = 8;
constexpr std::int64_t kHeldOutTimes = 20;  // in a run
constexpr std::int64_t kLeastBetween = 25;  // steps, so that short runs do not measure more than they learn
constexpr double kSecondsBetweenCheckpoints = 10;

enum class Config { tiny, standard };

Plan plan_of(Config config) {
    if (config == Config::tiny)
        return {
            .sizes = {.layers = 2, .heads = 2, .head_dim = 32, .context = 64}, .steps = 1000, .batch = 8, .rate = 4e-3};
    return {.sizes = {.layers = 6, .heads = 6, .head_dim = 64, .context = 512},
            .steps = 3000,
            .batch = 32,
            .rate = 1e-3,
            .half = true};
}

struct Options {
    Target target;
    std::optional<Config> config;
    std::optional<std::int64_t> steps, checkpoint_every;
    std::optional<std::uint64_t> seed;
    std::string out = LADDER_TRAINING_FOLDER;
    bool resume = false, restart = false, compare = false;
    std::optional<std::string> generate;
    Sampling sampling;
};

volatile std::sig_atomic_t interrupted = 0;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string rough_time(double seconds) {
    if (seconds < 90) return fmt::format("{:.0f} s", seconds);
    return fmt::format("{:.0f} min", seconds / 60);
}

std::string rate_text(double tokens_a_second) {
    return tokens_a_second < 1e5 ? fmt::format("{:.0f} tokens/s", tokens_a_second)
                                 : fmt::format("{:.0f}k tokens/s", tokens_a_second / 1e3);
}

/// How far a run has come: on a terminal a line that is always there, elsewhere one now and then.
class Reporter {
  public:
    Reporter(std::string name, const Trainer& trainer)
        : name_(std::move(name)), trainer_(trainer), first_(trainer.steps_made()) {}

    void after_step() {
        const double now = seconds_since(start_);
        const bool due = on_terminal() ? now - last_ >= 0.1 : now >= next_ || trainer_.done();
        if (!due) return;
        const std::string text = line(now);
        if (on_terminal()) {
            shown_.reset();
            shown_.emplace(text);
        } else {
            fmt::print("  {}\n", text);
            std::fflush(stdout);
        }
        last_ = now;
        next_ = std::max(now + 10, now * 1.25);
    }

    double tokens_a_second() const {
        return double((trainer_.steps_made() - first_) * trainer_.tokens_a_step()) /
               std::max(1e-9, seconds_since(start_));
    }

  private:
    std::string line(double now) const {
        constexpr int kCells = 24;
        const std::int64_t step = trainer_.steps_made(), steps = trainer_.plan().steps;
        const int full = int(step * kCells / steps);
        std::string bar;
        for (int i = 0; i < kCells; ++i) bar += i < full ? "█" : "░";
        const double left = now / double(step - first_) * double(steps - step);
        return fmt::format("{} {} step {}/{}  loss {:.3f}  {}  {} left", name_, bar, step, steps,
                           smoothed(trainer_.losses(), 20).back().second, rate_text(tokens_a_second()),
                           rough_time(left));
    }

    std::string name_;
    const Trainer& trainer_;
    std::int64_t first_;
    Clock::time_point start_ = Clock::now();
    double last_ = -1, next_ = 0;
    std::optional<Progress> shown_;
};

/// Whose attention a run uses, and what is called after it.
struct Contestant {
    std::string name;  ///< in words, and in the legend of the curve
    std::string file;  ///< of its checkpoint
    std::string colour;
    Attention attention;
};

Contestant ours() { return {"FlashLadder", "checkpoint.safetensors", "#c9772b", own_attention}; }
Contestant pytorchs() { return {"PyTorch's SDPA", "sdpa.safetensors", "#3f9b7a", pytorch_attention}; }

struct Finished {
    Contestant contestant;
    std::unique_ptr<Trainer> trainer;
    double tokens_a_second = 0;
    double seconds_a_step = 0, share_of_attention = 0;  ///< with --compare

    double loss_at_last() const { return smoothed(trainer->losses(), 20).back().second; }
    double held_out_loss() const {
        return trainer->held_out().empty() ? trainer->held_out_loss(kHeldOutBatches) : trainer->held_out().back().loss;
    }
};

std::unique_ptr<Trainer> trainer_for(const Contestant& contestant, const Options& options, const Plan& plan,
                                     const Corpus& corpus, torch::Device device) {
    const fs::path file = fs::path(options.out) / contestant.file;
    if (options.restart || !fs::exists(file))
        return std::make_unique<Trainer>(plan, corpus, device, contestant.attention);
    const Checkpoint checkpoint = read_checkpoint(file);
    if (options.resume && checkpoint.plan == plan)
        return std::make_unique<Trainer>(checkpoint, corpus, device, contestant.attention);
    if (checkpoint.step < checkpoint.plan.steps && contestant.file == ours().file)
        throw std::invalid_argument(
            fmt::format("train: {} is of a run that has come to step {} of {}; add --resume to go on with it, or "
                        "--restart to begin anew",
                        file.string(), checkpoint.step, checkpoint.plan.steps));
    return std::make_unique<Trainer>(plan, corpus, device, contestant.attention);
}

Finished train(const Contestant& contestant, const Options& options, const Plan& plan, const Corpus& corpus,
               torch::Device device) {
    Finished run{contestant, trainer_for(contestant, options, plan, corpus, device)};
    Trainer& trainer = *run.trainer;
    if (trainer.steps_made() > 0) fmt::print("  {} goes on after step {}\n", contestant.name, trainer.steps_made());
    const fs::path file = fs::path(options.out) / contestant.file;
    const std::int64_t between = std::max(kLeastBetween, plan.steps / kHeldOutTimes);
    Reporter reporter(contestant.name, trainer);
    Clock::time_point kept = Clock::now();
    while (!trainer.done() && !interrupted) {
        trainer.step();
        if (trainer.steps_made() % between == 0 || trainer.done()) trainer.note_held_out_loss(kHeldOutBatches);
        reporter.after_step();
        const bool due = options.checkpoint_every ? trainer.steps_made() % *options.checkpoint_every == 0
                                                  : seconds_since(kept) > kSecondsBetweenCheckpoints;
        if (due || trainer.done() || interrupted) {
            write_checkpoint(file, trainer.checkpoint());
            kept = Clock::now();
        }
    }
    run.tokens_a_second = reporter.tokens_a_second();
    return run;
}

void write_results(const Options& options, const std::vector<Finished>& runs) {
    std::vector<Curve> curves;
    std::string table = "step,loss";
    for (const Finished& run : runs) {
        const std::vector<double>& losses = run.trainer->losses();
        curves.push_back({run.contestant.name, run.contestant.colour, false,
                          smoothed(losses, std::max<std::size_t>(1, losses.size() / 50))});
        Curve dots{run.contestant.name + ", held-out text", run.contestant.colour, true, {}};
        for (const Measured& m : run.trainer->held_out()) dots.points.emplace_back(double(m.step), m.loss);
        curves.push_back(std::move(dots));
    }
    const fs::path folder = options.out;
    const std::string title = "Loss per byte, in nats";
    write_whole(folder / "loss.svg", plots::in_the_look_of_the_book(curves_as_svg(title, curves), title));
    if (runs.size() > 1) table += ",sdpa";
    table += '\n';
    for (std::size_t i = 0; i < runs.front().trainer->losses().size(); ++i) {
        table += fmt::format("{}", i + 1);
        for (const Finished& run : runs) table += fmt::format(",{}", run.trainer->losses()[i]);
        table += '\n';
    }
    write_whole(folder / "losses.csv", table);
}

void print_attention(const Plan& plan, torch::Device device) {
    const ModelSizes& s = plan.sizes;
    const torch::Tensor q = at::zeros({1, s.heads, s.context, s.head_dim},
                                      at::device(device).dtype(plan.half ? at::kBFloat16 : at::kFloat));
    const AttentionOptions causal{.scale = {}, .mask = Mask::causal_bottom_right};
    const AttentionChoice learning = attention_choice(q, q, q, causal);
    const AttentionChoice writing = attention_choice(q.narrow(2, 0, 1), q, q, causal);
    fmt::print("  attention  {} and {} to learn, {} to write\n", learning.forward, learning.backward, writing.forward);
}

/// How long a step takes on average, with that attention.
double seconds_a_step(const Plan& plan, const Corpus& corpus, torch::Device device, const Attention& attention) {
    constexpr int kWarm = 2, kTimed = 10;
    Trainer trainer(plan, corpus, device, attention);
    for (int i = 0; i < kWarm; ++i) trainer.step();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < kTimed; ++i) trainer.step();
    return seconds_since(start) / kTimed;
}

/// The part of a step that each run spends on attention: what a model whose layers pass V on, and do nothing else, does
/// not need.
void measure_shares(std::vector<Finished>& runs, const Plan& plan, const Corpus& corpus, torch::Device device) {
    const double without = seconds_a_step(
        plan, corpus, device, [](const torch::Tensor&, const torch::Tensor&, const torch::Tensor& v) { return v; });
    for (Finished& run : runs) {
        run.seconds_a_step = seconds_a_step(plan, corpus, device, run.contestant.attention);
        run.share_of_attention = std::max(0.0, 1 - without / run.seconds_a_step);
    }
}

void print_shares(const std::vector<Finished>& runs) {
    std::string text;
    for (const Finished& run : runs)
        text +=
            fmt::format("{}{} of a step's {} with {}", text.empty() ? "" : ", ",
                        run.share_of_attention > 0 ? fmt::format("{:.0f} %", 100 * run.share_of_attention) : "nothing",
                        human_time(1e3 * run.seconds_a_step), run.contestant.name);
    fmt::print("  attention takes  {}\n", text);
}

void print_summary(const Options& options, const std::vector<Finished>& runs) {
    for (const Finished& run : runs) {
        const double held_out = run.held_out_loss();
        fmt::print("  {:<16} loss {:.3f} at first, {:.3f} at last; {:.3f} on held-out text, {:.2f} bits a byte{}\n",
                   run.contestant.name, run.trainer->losses().front(), run.loss_at_last(), held_out,
                   held_out / std::log(2.0),
                   run.tokens_a_second > 0 ? "; " + rate_text(run.tokens_a_second) : std::string());
    }
    fmt::print("  curve            {}\n", (fs::path(options.out) / "loss.svg").string());
}

/// Where and with what, what each run came to, and what the model writes.
void write_record(const Options& options, const Plan& plan, torch::Device device, const std::vector<Finished>& runs,
                  const std::string& sample) {
    const char* commit = std::getenv("LADDER_COMMIT");
    Json json = {{"commit", commit ? commit : "unknown"},
                 {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
                 {"device_name", device_limits(device).name},
                 {"torch", TORCH_VERSION},
                 {"layers", plan.sizes.layers},
                 {"heads", plan.sizes.heads},
                 {"head_dim", plan.sizes.head_dim},
                 {"context", plan.sizes.context},
                 {"steps", plan.steps},
                 {"bytes_a_step", plan.batch * plan.sizes.context},
                 {"seed", plan.seed},
                 {"runs", Json::array()},
                 {"sample", std::string(kPrompt) + sample}};
    for (const Finished& run : runs) {
        Json what = {{"attention", run.contestant.name},
                     {"bytes_a_second", run.tokens_a_second},
                     {"seconds", double(plan.steps * run.trainer->tokens_a_step()) / run.tokens_a_second},
                     {"first_loss", run.trainer->losses().front()},
                     {"last_loss", run.loss_at_last()},
                     {"held_out_loss", run.held_out_loss()}};
        if (run.seconds_a_step > 0) {
            what["milliseconds_a_step"] = 1e3 * run.seconds_a_step;
            what["share_of_attention"] = run.share_of_attention;
        }
        json["runs"].push_back(what);
    }
    write_json(json, (fs::path(options.out) / "record.json").string());
}

std::string write_on(const Gpt& model, std::string_view prompt, const Sampling& sampling) {
    const std::string text = readable(continued(model, prompt, sampling));
    fmt::print("{}{}\n", styled(Style::bold, prompt), text);
    return text;
}

int generate(const Options& options, torch::Device device) {
    const Checkpoint checkpoint = read_checkpoint(fs::path(options.out) / ours().file);
    const Corpus nothing;
    Trainer trainer(checkpoint, nothing, device, own_attention);
    write_on(trainer.model(), *options.generate, options.sampling);
    return 0;
}

Plan chosen_plan(const Options& options, torch::Device device) {
    if (options.resume) {
        const Plan plan = read_checkpoint(fs::path(options.out) / ours().file).plan;
        if ((options.steps && *options.steps != plan.steps) || (options.seed && *options.seed != plan.seed))
            throw std::invalid_argument(
                fmt::format("train: the run in {} has {} steps and seed {}, and goes on with those; leave --steps and "
                            "--seed out, or begin anew with --restart",
                            options.out, plan.steps, plan.seed));
        return plan;
    }
    Plan plan = plan_of(options.config.value_or(device.is_cuda() ? Config::standard : Config::tiny));
    plan.steps = options.steps.value_or(plan.steps);
    plan.seed = options.seed.value_or(0);
    return plan;
}

int run(Options& options) {
    const torch::Device device = options.target.choose();
    options.sampling.seed = options.seed.value_or(0);
    if (device.is_cpu()) at::set_num_threads(1);  // the CPU machine has workers of its own, and the products are small
    if (options.generate) return generate(options, device);
    fs::create_directories(options.out);
    const Plan plan = chosen_plan(options, device);
    const Corpus corpus = read_corpus(LADDER_SOURCE_DIR);
    const std::int64_t weights = Gpt(plan.sizes, 0, at::kCPU, at::kFloat, own_attention).weights().numel();
    fmt::print("{}   {} layers, {} heads of {}, {:.2f} M weights, context {}, {} steps of {} bytes, seed {}\n",
               styled(Style::bold, "A small GPT"), plan.sizes.layers, plan.sizes.heads, plan.sizes.head_dim,
               double(weights) / 1e6, plan.sizes.context, plan.steps, plan.batch * plan.sizes.context, plan.seed);
    fmt::print("  text       {} files of this repository: {:.1f} MB to learn from, {:.1f} MB held out\n", corpus.files,
               double(corpus.training.numel()) / 1e6, double(corpus.held_out.numel()) / 1e6);
    print_attention(plan, device);
    std::fflush(stdout);

    std::signal(SIGINT, [](int) { interrupted = 1; });
    std::vector<Finished> runs;
    runs.push_back(train(ours(), options, plan, corpus, device));
    if (options.compare && !interrupted) runs.push_back(train(pytorchs(), options, plan, corpus, device));
    if (interrupted) {
        fmt::print("  stopped; ./ladder train --resume goes on from here\n");
        return 130;
    }
    write_results(options, runs);
    print_summary(options, runs);
    if (options.compare) {
        measure_shares(runs, plan, corpus, device);
        print_shares(runs);
    }
    fmt::print("\n");
    write_record(options, plan, device, runs, write_on(runs.front().trainer->model(), kPrompt, options.sampling));
    return 0;
}

}  // namespace

void add_command(CLI::App& app, Action& action) {
    const auto options = std::make_shared<Options>();
    CLI::App& command =
        *app.add_subcommand("train", "A small GPT learns to write this repository's text, with no attention but ours");
    command.footer(
        "Every attention in the model is this repository's, forward, backward, and with a cache of keys where it "
        "writes.\n"
        "Nothing is downloaded: it learns from the chapters, pages and sources, byte by byte, and writes to --out a\n"
        "checkpoint, losses.csv, the curve (loss.svg) and record.json. A run may be stopped or killed at any "
        "moment.\n\n"
        "  ./ladder train                                    a few minutes on two cores, or on a GPU\n"
        "  ./ladder train --resume                           goes on where a run was stopped\n"
        "  ./ladder train --restart --compare                beside the same model with PyTorch's attention\n"
        "  ./ladder train --generate \"The running maximum\"   what it has learned");
    options->target.add_options(command);
    const std::map<std::string, Config> configs = {{"tiny", Config::tiny}, {"default", Config::standard}};
    const auto positive = CLI::PositiveNumber;
    auto* config = add_named(command, "--config", options->config, configs, "tiny or default",
                             "tiny on the CPU machine, default on a GPU");
    auto* steps = command.add_option("--steps", options->steps, "how many steps the whole run has")
                      ->check(positive)
                      ->type_name("N");
    command
        .add_option("--seed", options->seed,
                    "of the first weights, of the order of the text and of what is written (default 0)")
        ->type_name("S");
    command.add_option("--out", options->out, "folder of the checkpoint, the losses and the curve")
        ->capture_default_str()
        ->type_name("DIR");
    command
        .add_option("--checkpoint-every", options->checkpoint_every,
                    "steps between checkpoints (default: every 10 seconds)")
        ->check(positive)
        ->type_name("N");
    auto* resume =
        command.add_flag("--resume", options->resume, "go on where the run in --out was stopped")->excludes(config);
    command.add_flag("--restart", options->restart, "begin anew, whatever is in --out")->excludes(resume);
    command.add_flag("--compare", options->compare, "train the same model with PyTorch's attention, too");
    command
        .add_option("--generate", options->generate, "go on from this text with the model in --out, and train nothing")
        ->type_name("TEXT")
        ->excludes(config)
        ->excludes(steps)
        ->excludes(resume);
    command.add_option("--bytes", options->sampling.bytes, "how many bytes to write")
        ->check(positive)
        ->capture_default_str()
        ->type_name("N");
    command
        .add_option("--temperature", options->sampling.temperature,
                    "0 takes the most likely byte, 1 draws as the model says")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str()
        ->type_name("T");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace ladder::cli
