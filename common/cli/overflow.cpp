#include "common/cli/overflow.h"

#include <fmt/format.h>

#include "common/cli/terminal.h"
#include "common/reference/comparison.h"
#include "phase1_naive/overflow.h"

namespace ladder::cli {
namespace {

void print_table(const OverflowAnswer& answer) {
    using Align = Table::Align;
    const bool whole_v = answer.shape.scheme == Scheme::q_blocked;
    Table table({{"N", Align::right},
                 {"Q", Align::right},
                 {"K", Align::right},
                 {whole_v ? "V" : "V tile", Align::right},
                 {"S", Align::right},
                 {"bytes", Align::right},
                 {""}});
    for (const OverflowRow& row : answer.rows) {
        const char* verdict = row.fits_without_asking ? "fits" : row.fits ? "fits, with opt-in" : "does not fit";
        const Style style = row.fits_without_asking ? Style::good : row.fits ? Style::note : Style::bad;
        const bool largest = row.key_length == answer.largest_key_length;
        table.add({{std::to_string(row.key_length), largest ? Style::bold : Style::plain},
                   {std::to_string(row.need.q)},
                   {std::to_string(row.need.k)},
                   {std::to_string(row.need.v)},
                   {std::to_string(row.need.s)},
                   {std::to_string(row.need.total())},
                   {fmt::format("{}{}", verdict, largest ? ": the longest that runs" : ""), style}});
    }
    fmt::print("\n{}", table.text(2));
}

bool print_outcome(const OverflowAnswer& answer) {
    bool right = true;
    if (answer.run) {
        const reference::Comparison verdict =
            reference::compare_attention(answer.run->result, answer.run->q, answer.run->k, answer.run->v);
        right = verdict.passed;
        fmt::print("\n  N = {} launched with {} bytes: ran, error {:.1e}, allowed {:.1e}: {}\n",
                   answer.largest_key_length, answer.run->shared_bytes_per_block, verdict.max_abs_error, verdict.bound,
                   right ? styled(Style::good, "right") : styled(Style::bad, "WRONG: " + verdict.report));
    } else {
        fmt::print("\n  Not a single key fits beside {} query rows.\n", answer.shape.block_rows);
    }
    const simt::LaunchError& refusal = answer.refusal;
    fmt::print("  N = {} launched with {} bytes: {}\n", answer.largest_key_length + 1, refusal.required_shared_bytes,
               styled(Style::bad, fmt::format("{} gave {} ({})", refusal.call, refusal.code_name, refusal.code)));
    return right;
}

}  // namespace

int run_overflow(const OverflowRequest& request) {
    bool right = true;
    for (const Scheme scheme : {Scheme::q_blocked, Scheme::qv_blocked}) {
        const OverflowAnswer answer = overflow({.device = request.device,
                                                .shape = {.scheme = scheme,
                                                          .type = request.type,
                                                          .head_dim = request.head_dim,
                                                          .block_rows = request.block_rows}});
        if (scheme == Scheme::q_blocked) {
            fmt::print("{}   {}{}\n", styled(Style::bold, "Shared memory"), answer.limits.name,
                       request.device.is_cuda() ? "" : ", imitated by the CPU machine");
            fmt::print("  per block      {} bytes by default, {} with opt-in\n", answer.limits.shared_bytes_per_block,
                       answer.limits.shared_bytes_per_block_optin);
            fmt::print("  problem        {}, head dimension {}, {} query rows per block\n", name_of(request.type),
                       request.head_dim, request.block_rows);
            fmt::print("\n{}   Q_i, all of K, all of V, whole rows of scores\n", styled(Style::bold, "Scheme A"));
        } else {
            fmt::print("\n{}   Q_i, all of K, one tile of V, whole rows of scores\n", styled(Style::bold, "Scheme B"));
        }
        print_table(answer);
        right &= print_outcome(answer);
    }
    fmt::print(
        "\n{}",
        wrapped(
            "Both refusals came from launches that were really tried, not from the table: a device says no before a "
            "thread runs, because a block's "
            "shared memory is set aside when it starts. Tiling V buys a little. What grows is K and S, "
            "since this softmax wants the whole row before it can weigh the first value. The online "
            "softmax of phase 0 does not, and phase 2 is built on it.",
            2));
    return right ? 0 : 1;
}

}  // namespace ladder::cli
