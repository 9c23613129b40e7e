#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/simt/counters/access_listener.h"
#include "common/simt/counters/lane_streams.h"
#include "common/simt/counters/request_cost.h"
#include "common/simt/memory/tensor_names.h"
#include "common/simt/report/launch_log.h"
#include "common/simt/report/source_site.h"

namespace simt {
inline namespace cpu {

class BlockRecorder;

/// Counts what the blocks of one worker move, while a LaunchLog listens.
///
/// Bytes are counted access by access. Sectors and wavefronts are properties of a warp's request, so where they are
/// wanted each lane's accesses are kept until the warp meets, and then put together to requests (see LaneStreams).
class Traffic {
  public:
    /// `recorder`, if there is one, hears of every access that is counted.
    void start_block(std::optional<LaunchLog::Detail> count, int threads, BlockRecorder* recorder);
    void end_block();

    /// Whether somebody wants to hear of accesses.
    bool is_heard() const { return is_heard_; }

    /// From now on to the end of the block `listener` hears of every access too. For signal handlers as well, hence
    /// their types: no compiler may take what a loop asks for a constant of the loop.
    void tell(AccessListener& listener) {
        listener_.store(&listener, std::memory_order_relaxed);
        is_heard_ = true;
    }

    void shared(bool write, std::size_t offset, std::size_t bytes, int thread, SourceSite site) {
        if (is_heard()) [[unlikely]]
            count(write ? kSharedWrite : kSharedRead, offset, bytes, thread, site);
    }

    /// What a product of a warpgroup reads from shared memory: a read as others, and counted by itself besides.
    void product_operand(std::size_t offset, std::size_t bytes, int thread, SourceSite site) {
        if (is_heard()) [[unlikely]]
            count(kProductRead, offset, bytes, thread, site);
    }

    void global(bool write, int tensor, const void* address, std::size_t bytes, int thread, SourceSite site) {
        if (is_heard()) [[unlikely]]
            count(write, tensor, address, bytes, thread, site);
    }

    /// An atomic update, which counts as a write.
    /// @param combines  see AtomicUse
    void global_update(bool combines, int tensor, const void* address, std::size_t bytes, int thread, SourceSite site) {
        if (is_heard()) [[unlikely]]
            count(true, tensor, address, bytes, thread, site, combines ? Lanes::combined : Lanes::one_by_one);
    }

    /// A row of a bulk copy, which belongs to no request of a warp: bytes, and the sectors that the row touches.
    void bulk_global(bool write, int tensor, const void* address, std::size_t bytes, int thread, SourceSite site) {
        if (is_heard()) [[unlikely]]
            count_bulk(write, tensor, address, bytes, thread, site);
    }

    /// What a bulk copy reads from shared memory or writes to it: bytes, since it passes by the pipeline that counts
    /// wavefronts.
    void bulk_shared(bool write, std::size_t offset, std::size_t bytes, int thread, SourceSite site) {
        if (is_heard()) [[unlikely]]
            count_bulk(write, offset, bytes, thread, site);
    }

    /// `thread` comes by an `if` of the kernel.
    void mark(int thread, SourceSite site) {
        if (marks_) count_mark(thread, site);
    }

    void block_barrier() { ++sum_.block_barriers; }
    void warp_collective() { ++sum_.warp_collectives; }

    /// All lanes of `warp` that have not returned stand at one place.
    void warp_meets(int warp) {
        if (trace_) evaluate(warps_[warp]);
    }

    /// The sums since the last call.
    Counters take();

  private:
    static constexpr int kMark = -1, kSharedRead = 0, kSharedWrite = 1, kProductRead = 2, kGlobal = 3;

    /// While one is alive, kernels tell of marks.
    class Listening {
      public:
        Listening();
        ~Listening();
        Listening(const Listening&) = delete;
        Listening& operator=(const Listening&) = delete;
    };

    /// What a source line does to one memory, or to one tensor; or a mark, which costs nothing.
    struct Instruction {
        SourceSite site;
        int kind = 0, bytes = 0;
        Lanes lanes = Lanes::together;
        friend bool operator==(const Instruction&, const Instruction&) = default;
    };
    struct InstructionHash {
        std::size_t operator()(const Instruction&) const;
    };
    /// What was asked for last, by line and kind: threads come by few lines many times, and so spare themselves the
    /// hash.
    struct Asked {
        Instruction instruction{.site = {}, .bytes = -1};
        std::uint32_t number = 0;
    };

    void count(int shared_kind, std::size_t offset, std::size_t bytes, int thread, SourceSite site);
    void count(bool write, int tensor, const void* address, std::size_t bytes, int thread, SourceSite site,
               Lanes lanes = Lanes::together);
    void count_bulk(bool write, int tensor, const void* address, std::size_t bytes, int thread, SourceSite site);
    void count_bulk(bool write, std::size_t offset, std::size_t bytes, int thread, SourceSite site);
    void count_mark(int thread, SourceSite site);
    void record(const Instruction& instruction, std::uint64_t address, int thread);
    std::uint32_t number_anew(const Instruction& instruction, Asked& last);
    void evaluate(LaneStreams& warp);
    void count_in_doubt(LaneStreams& warp);
    static RequestCost cost_of(const LaneStreams::Request& request, const Instruction& instruction);
    RequestCost count_request(const LaneStreams::Request& request);
    void count_global(const RequestCost& sectors, const Instruction& instruction);
    void count_shared(const RequestCost& wavefronts, const Instruction& instruction);

    volatile std::sig_atomic_t is_heard_ = false;
    std::atomic<AccessListener*> listener_ = nullptr;
    bool counts_ = false;
    bool trace_ = false;  // of warps' requests too
    std::optional<Listening> marks_;
    BlockRecorder* recorder_ = nullptr;
    Counters sum_;
    std::array<TensorTraffic, kMaxTensorNames> tensors_{};  // unnamed until taken
    std::unordered_map<Instruction, std::uint32_t, InstructionHash> numbers_;
    std::array<Asked, 64> asked_;
    std::vector<Instruction> instructions_;
    std::vector<LaneStreams::Origin> origins_;  // of instructions_
    std::vector<LaneStreams> warps_;
};

}  // namespace cpu
}  // namespace simt
