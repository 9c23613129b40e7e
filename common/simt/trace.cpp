#include "common/simt/trace.h"

#include <algorithm>
#include <utility>

namespace simt {
namespace {

thread_local TraceLog* innermost = nullptr;

// What a file spends: an access is a short list of numbers, a value two bytes before they are written as text.
constexpr std::size_t kBytesPerMoment = 16, kBytesPerAccess = 40, kBytesPerMatrix = 60;

std::size_t bytes_of(const TracedMoment& moment) {
    std::size_t bytes = kBytesPerMoment + kBytesPerAccess * moment.accesses.size();
    for (const TracedValues& v : moment.values) bytes += kBytesPerMatrix + v.values.size() * 8 / 3;
    return bytes;
}

}  // namespace

TraceLog::TraceLog(Wanted wanted) : wanted_(std::move(wanted)), outer_(std::exchange(innermost, this)) {}
TraceLog::~TraceLog() { innermost = outer_; }

TraceLog* TraceLog::active() { return innermost; }

bool TraceLog::wants_block(std::uint64_t number) const {
    if (!wanted_.blocks.empty()) return std::ranges::find(wanted_.blocks, number) != wanted_.blocks.end();
    return used_bytes_ < wanted_.budget_bytes;
}

void TraceLog::end_block(TracedBlock block) {
    for (const TracedMoment& moment : block.moments) used_bytes_ += bytes_of(moment);
    launch().blocks.push_back(std::move(block));
}

}  // namespace simt
