#include "common/simt/report/trace.h"

#include <algorithm>
#include <utility>

namespace simt {
namespace {

thread_local TraceLog* innermost_trace = nullptr;

// What a file spends: an access is a short list of numbers; a value is four bytes at most, and a third more as text.
constexpr std::size_t kBytesPerMoment = 16, kBytesPerAccess = 40, kBytesPerMatrix = 60, kBytesPerEvent = 40;

std::size_t bytes_of(const TracedMoment& moment) {
    std::size_t bytes = kBytesPerMoment + kBytesPerAccess * moment.accesses.size();
    for (const TracedEvent& e : moment.events) bytes += kBytesPerEvent + kBytesPerAccess * e.boxes.size();
    for (const TracedValues& v : moment.values) bytes += kBytesPerMatrix + v.values.size() * 16 / 3;
    return bytes;
}

}  // namespace

TraceLog::TraceLog(Wanted wanted) : wanted_(std::move(wanted)), outer_(std::exchange(innermost_trace, this)) {}
TraceLog::~TraceLog() { innermost_trace = outer_; }

TraceLog* TraceLog::active() { return innermost_trace; }

void TraceLog::begin_launch(LaunchTrace launch) { launches_.push_back(std::move(launch)); }

bool TraceLog::wants_block(std::uint64_t number) const {
    if (!wanted_.blocks.empty()) return std::ranges::find(wanted_.blocks, number) != wanted_.blocks.end();
    return used_bytes_ + largest_block_ <= wanted_.budget_bytes;
}

void TraceLog::end_block(TracedBlock block) {
    std::size_t bytes = 0;
    for (const TracedMoment& moment : block.moments) bytes += bytes_of(moment);
    bytes += kBytesPerMatrix * (block.fills.size() + block.groups.size() + block.stores.size());
    used_bytes_ += bytes;
    largest_block_ = std::max(largest_block_, bytes);
    // Those of a cluster end in any order.
    const auto number = [](const TracedBlock& b) { return std::array{b.index[2], b.index[1], b.index[0]}; };
    std::vector<TracedBlock>& blocks = launch().blocks;
    blocks.insert(std::ranges::upper_bound(blocks, number(block), {}, number), std::move(block));
}

void TraceLog::mark_fault(const std::array<unsigned, 3>& block, SourceSite site) {
    const auto wrong = std::ranges::find(launch().blocks, block, &TracedBlock::index);
    if (wrong == launch().blocks.end()) return;
    const auto has_site = [&](const TracedMoment& moment) {
        return std::ranges::find(moment.accesses, site, &TracedAccess::site) != moment.accesses.end();
    };
    const auto last = std::find_if(wrong->moments.rbegin(), wrong->moments.rend(), has_site);
    if (last != wrong->moments.rend()) last->fault = true;
}

}  // namespace simt
