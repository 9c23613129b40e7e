#include "common/fuzz/problem.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ladder::fuzz {
namespace {

std::string text_of(const NonFinite& n) {
    constexpr const char* kArguments[] = {"q", "k", "v"};
    constexpr const char* kValues[] = {"NaN", "inf", "-inf"};
    return fmt::format("{}[{}] = {}", kArguments[int(n.argument)], fmt::join(n.index, "]["), kValues[int(n.value)]);
}

std::string text_of(Property property) {
    switch (property) {
        case Property::none:
            return "";
        case Property::repeats_bitwise:
            return "called twice";
        case Property::ignores_batch_neighbours:
            return "with and without batch neighbours";
        case Property::ignores_splits:
            return "with two split counts";
    }
    return "";
}

}  // namespace

std::int64_t other_splits(const Problem& problem) { return problem.splits.value_or(2) % 5 + 1; }

std::string describe(const Problem& p) {
    if (!p.bad_call.empty()) return "bad call " + p.bad_call;
    std::string text = reference::describe(p.attention);
    const auto add = [&](const std::string& part) { text += ", " + part; };
    if (p.block_rows) add(fmt::format("block_rows {}", *p.block_rows));
    if (p.splits) add(fmt::format("splits {}", *p.splits));
    if (p.kv_lengths) add(fmt::format("kv_lengths {{{}}}", fmt::join(*p.kv_lengths, ", ")));
    text += describe(p.eight_bits);
    if (p.sharing.ranks != 1) add(fmt::format("{} ranks", p.sharing.ranks));
    if (p.sharing.zigzag) add("zigzag");
    if (p.non_finite) add(text_of(*p.non_finite));
    if (p.property != Property::none) add(text_of(p.property));
    if (p.profile != simt::kDefaultProfile) add("on " + p.profile);
    if (p.workers != 1) add(fmt::format("{} workers", p.workers));
    return text;
}

bool operator==(const Problem& a, const Problem& b) {
    return a.attention.seed == b.attention.seed && describe(a) == describe(b);
}

}  // namespace ladder::fuzz
