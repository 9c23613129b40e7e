#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace simt {
inline namespace cpu {

/// The additions of a launch to global memory that commute: blocks may make them in any order, and a GPU does. Sums of
/// floating point tell the order by their last bits. So that a kernel does the same thing on every run here, whatever
/// the number of workers, a block's additions are kept until all blocks before it have ended, and then made.
class GlobalSums {
  public:
    /// Adds `count` elements at `values` to those at `to`.
    using Add = void (*)(void* to, const void* values, std::size_t count);

    /// What a block has added so far, in its order.
    class Log {
      public:
        void add(void* to, const void* values, std::size_t count, std::size_t bytes, Add how);
        bool empty() const { return rows_.empty(); }
        void make();  ///< all of them, and forgets them

      private:
        struct Row {
            void* to;
            std::size_t count, first;  // first: of values_
            Add how;
        };
        std::vector<Row> rows_;
        std::vector<std::byte> values_;
    };

    /// The block has ended. Every block of the launch that has begun says so.
    void end_block(std::uint64_t block, Log& log);

    /// Makes the block's additions now, since it reads what it added to, or writes there. Waits until all blocks before
    /// it have ended.
    void make_now(std::uint64_t block, Log& log);

    /// From now on that waits for nobody: a block before may itself wait for this one, or not have begun.
    void make_in_any_order();

  private:
    std::mutex mutex_;
    std::condition_variable next_changed_;
    std::uint64_t next_ = 0;  // the first block that has not ended
    bool in_any_order_ = false;
    std::map<std::uint64_t, Log> waiting_;  // of blocks that ended before it
};

}  // namespace cpu
}  // namespace simt
