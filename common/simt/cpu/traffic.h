#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "common/simt/launch_log.h"
#include "common/simt/source_site.h"

namespace simt {
inline namespace cpu {

/// A small number for a tensor's name, so that an access can be counted without looking the name up.
int tensor_id(const char* name);
const char* tensor_name(int id);
inline constexpr int kMaxTensorNames = 128;

/// Counts what the blocks of one worker move.
///
/// Bytes are counted access by access. Sectors and wavefronts are properties of a warp's request, but the machine runs
/// one lane after the other. So with tracing on, the n-th access that a lane makes at a source line is put together
/// with the n-th access of the other lanes at that line: on the GPU that is one instruction. A request is evaluated
/// once its last lane has joined, or when the block ends.
class Traffic {
  public:
    void start_block(bool trace, int threads);
    void end_block();

    void shared(bool write, std::size_t offset, std::size_t bytes, int thread, SourceSite site) {
        (write ? sum_.shared_bytes_written : sum_.shared_bytes_read) += bytes;
        if (trace_) join_request(write ? kSharedWrite : kSharedRead, offset, bytes, thread, site);
    }

    void global(bool write, int tensor, const void* address, std::size_t bytes, int thread, SourceSite site) {
        (write ? tensors_[tensor].bytes_written : tensors_[tensor].bytes_read) += bytes;
        if (trace_)
            join_request(kGlobal + 2 * tensor + write, reinterpret_cast<std::uintptr_t>(address), bytes, thread, site);
    }

    void block_barrier() { ++sum_.block_barriers; }
    void warp_collective() { ++sum_.warp_collectives; }

    /// The sums since the last call.
    Counters take();

  private:
    static constexpr int kSharedRead = 0, kSharedWrite = 1, kGlobal = 2;

    struct Tally {
        std::uint64_t bytes_read = 0, bytes_written = 0, sectors_read = 0, sectors_written = 0;
    };
    struct Request {
        int lanes = 0, bytes = 0;
        std::array<std::uint64_t, 32> address;
    };
    /// All requests that one source line of one warp still collects.
    struct Line {
        int kind = 0;
        std::array<std::uint32_t, 32> accesses{};  // per lane, how many so far
        std::uint32_t first = 0;                   // the ordinal of requests[0]
        std::size_t evaluated = 0;
        std::vector<Request> requests;
    };
    struct LineKey {
        int warp, kind;
        SourceSite site;
        friend bool operator==(const LineKey&, const LineKey&) = default;
    };
    struct LineHash {
        std::size_t operator()(const LineKey&) const;
    };

    void join_request(int kind, std::uint64_t address, std::size_t bytes, int thread, SourceSite site);
    void evaluate(int kind, const Request& request);

    bool trace_ = false;
    int threads_ = 0;
    Counters sum_;
    std::array<Tally, kMaxTensorNames> tensors_{};
    std::unordered_map<LineKey, Line, LineHash> lines_;
};

}  // namespace cpu
}  // namespace simt
