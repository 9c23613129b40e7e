#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "common/cli/command.h"
#include "common/cli/terminal.h"
#include "common/reference/comparison.h"

namespace ladder::cli {
namespace {

void print_table(const OverflowTable& table) {
    using Align = Table::Align;
    std::vector<Table::Column> columns = {{"N", Align::right}};
    for (const std::string& part : table.parts) columns.push_back({part, Align::right});
    columns.push_back({"bytes", Align::right});
    columns.push_back({""});
    Table lines(columns);
    for (const OverflowTable::Row& row : table.rows) {
        const char* verdict = row.fits_without_asking ? "fits" : row.fits ? "fits, with opt-in" : "does not fit";
        const Style style = row.fits_without_asking ? Style::good : row.fits ? Style::note : Style::bad;
        const bool largest = row.key_length == table.largest_key_length;
        std::vector<Table::Cell> cells = {{std::to_string(row.key_length), largest ? Style::bold : Style::plain}};
        std::size_t total = 0;
        for (const std::size_t bytes : row.bytes) {
            cells.push_back({std::to_string(bytes)});
            total += bytes;
        }
        cells.push_back({std::to_string(total)});
        cells.push_back({fmt::format("{}{}", verdict, largest ? ": the longest that runs" : ""), style});
        lines.add(std::move(cells));
    }
    fmt::print("\n{}", lines.text(2));
}

bool print_outcome(const OverflowTable& table, std::int64_t block_rows) {
    bool right = true;
    if (table.run) {
        const reference::Comparison verdict =
            reference::compare_attention(table.run->result, table.run->q, table.run->k, table.run->v);
        right = verdict.passed;
        fmt::print("\n  N = {} launched with {} bytes: ran, error {:.1e}, allowed {:.1e}: {}\n",
                   table.largest_key_length, table.run->shared_bytes_per_block, verdict.max_abs_error, verdict.bound,
                   right ? styled(Style::good, "right") : styled(Style::bad, "WRONG: " + verdict.report));
    } else {
        fmt::print("\n  Not a single key fits beside {} query rows.\n", block_rows);
    }
    const simt::LaunchError& refusal = table.refusal;
    fmt::print("  N = {} launched with {} bytes: {}\n", table.largest_key_length + 1, refusal.required_shared_bytes,
               styled(Style::bad, fmt::format("{} gave {} ({})", refusal.call, refusal.code_name, refusal.code)));
    return right;
}

/// Returns the exit code: 0 if the longest sequence that fits ran and gave the right answer, and one key more was
/// refused.
int run(const OverflowRequest& request) {
    const auto phase = std::ranges::find_if(phases(), [](const Phase& p) { return bool(p.overflow); });
    if (phase == phases().end()) throw std::logic_error("overflow: no phase of this program keeps whole rows");
    const OverflowDemo demo = phase->overflow(request);
    fmt::print("{}   {}{}\n", styled(Style::bold, "Shared memory"), demo.limits.name,
               request.device.is_cuda() ? "" : ", imitated by the CPU machine");
    fmt::print("  per block      {} bytes by default, {} with opt-in\n", demo.limits.shared_bytes_per_block,
               demo.limits.shared_bytes_per_block_optin);
    fmt::print("  problem        {}, head dimension {}, {} query rows per block\n", name_of(request.type),
               request.head_dim, request.block_rows);
    bool right = true;
    for (const OverflowTable& table : demo.tables) {
        fmt::print("\n{}   {}\n", styled(Style::bold, table.name), table.plan);
        print_table(table);
        right &= print_outcome(table, request.block_rows);
    }
    const std::string tried =
        "Both refusals came from launches that were really tried, not from the table: a device says no before a thread "
        "runs, because a block's shared memory is set aside when it starts. ";
    fmt::print("\n{}", wrapped(tried + demo.lesson, 2));
    return right ? 0 : 1;
}

}  // namespace

void add_command(CLI::App& app, Action& action) {
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
            return run(options->request);
        };
    });
}

}  // namespace ladder::cli
