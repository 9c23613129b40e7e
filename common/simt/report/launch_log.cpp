#include "common/simt/report/launch_log.h"

#include <algorithm>
#include <utility>

namespace simt {
namespace {
thread_local LaunchLog* innermost = nullptr;
}

std::uint64_t Counters::global_bytes_read() const {
    std::uint64_t sum = 0;
    for (const TensorTraffic& t : tensors) sum += t.bytes_read;
    return sum;
}

std::uint64_t Counters::global_bytes_written() const {
    std::uint64_t sum = 0;
    for (const TensorTraffic& t : tensors) sum += t.bytes_written;
    return sum;
}

TensorTraffic& TensorTraffic::operator+=(const TensorTraffic& other) {
    bytes_read += other.bytes_read;
    bytes_written += other.bytes_written;
    sectors_read += other.sectors_read;
    sectors_written += other.sectors_written;
    sectors_read_ideal += other.sectors_read_ideal;
    sectors_written_ideal += other.sectors_written_ideal;
    requests_read += other.requests_read;
    requests_written += other.requests_written;
    sectors_read_in_doubt += other.sectors_read_in_doubt;
    sectors_written_in_doubt += other.sectors_written_in_doubt;
    return *this;
}

Counters& Counters::operator+=(const Counters& other) {
    for (const TensorTraffic& theirs : other.tensors) {
        auto ours = std::ranges::find(tensors, theirs.tensor, &TensorTraffic::tensor);
        if (ours == tensors.end()) {
            tensors.push_back(theirs);
            continue;
        }
        *ours += theirs;
    }
    shared_bytes_read += other.shared_bytes_read;
    shared_bytes_written += other.shared_bytes_written;
    shared_requests += other.shared_requests;
    shared_wavefronts += other.shared_wavefronts;
    shared_wavefronts_ideal += other.shared_wavefronts_ideal;
    shared_read_requests += other.shared_read_requests;
    shared_read_wavefronts += other.shared_read_wavefronts;
    product_read_requests += other.product_read_requests;
    product_read_wavefronts += other.product_read_wavefronts;
    shared_wavefronts_in_doubt += other.shared_wavefronts_in_doubt;
    block_barriers += other.block_barriers;
    warp_collectives += other.warp_collectives;
    return *this;
}

LaunchLog::LaunchLog(Detail detail) : detail_(detail), outer_(std::exchange(innermost, this)) {}
LaunchLog::~LaunchLog() { innermost = outer_; }

Counters LaunchLog::total() const {
    Counters sum;
    for (const LaunchRecord& r : records_) sum += r.counters;
    return sum;
}

void LaunchLog::record(LaunchRecord record) {
    if (innermost) innermost->records_.push_back(std::move(record));
}

std::optional<LaunchLog::Detail> LaunchLog::wanted() {
    if (!innermost) return std::nullopt;
    return innermost->detail_;
}

}  // namespace simt
