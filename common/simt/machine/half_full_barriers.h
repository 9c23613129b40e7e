#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "common/simt/report/machine_error.h"

namespace simt {
inline namespace cpu {

/// Named barriers that blocks of a launch have left half full.
///
/// PTX says nothing of a bar.arrive that is still alone when the block ends, and the next block finds its barriers
/// empty. So the last turn may be handed to nobody, as FlashAttention-3's consumers do, and a block without work may
/// arrive and leave. A barrier at which no thread of any block has waited is another matter: what was to be ordered
/// there is not. Only the end of the launch tells.
class HalfFullBarriers {
  public:
    HalfFullBarriers();
    ~HalfFullBarriers();

    /// A block has ended, in which threads went through these barriers: by number, a bit each.
    void note_opened(unsigned numbers) { opened_.fetch_or(numbers, std::memory_order_relaxed); }

    /// Block `block` has ended and left barrier `number` half full, which none of its threads ever went through.
    void note_left(int number, std::uint64_t block, MachineError::Report&& report);

    /// What that comes to, of the lowest such barrier, in the lowest block that left it so. Once no block runs.
    std::optional<MachineError::Report> mistake() const;

  private:
    std::atomic<unsigned> opened_ = 0;
    std::mutex mutex_;
    std::map<int, std::pair<std::uint64_t, MachineError::Report>> left_;  // by number
};

}  // namespace cpu
}  // namespace simt
