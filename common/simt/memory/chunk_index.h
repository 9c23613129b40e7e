#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace simt {
inline namespace cpu {

/// From addresses to the numbers of what lies there, for the running block. A std::unordered_map would allocate and
/// free for each of them, in each block, and divide to find it: a fifth of the time of a checked softmax. This keeps
/// its table, and forgets by counting on.
class ChunkIndex {
  public:
    ChunkIndex();
    ~ChunkIndex();
    ChunkIndex(const ChunkIndex&) = delete;
    ChunkIndex& operator=(const ChunkIndex&) = delete;

    /// The number under `address`, which is `number` if there was none yet.
    std::uint32_t find_or_add(std::uintptr_t address, std::uint32_t number) {
        for (std::size_t at = home_of(address);; at = (at + 1) & (slots_.size() - 1)) {
            Slot& slot = slots_[at];
            if (slot.generation != generation_) return add(slot, address, number);
            if (slot.address == address) return slot.number;
        }
    }

    /// Forgets all of them.
    void clear();

  private:
    struct Slot {
        std::uintptr_t address = 0;
        std::uint32_t generation = 0, number = 0;  // of another generation: empty
    };

    std::size_t home_of(std::uintptr_t address) const {
        // Multiplied by 2^64 over the golden ratio, neighbours scatter in the first bits.
        return std::uint64_t{address} * 0x9e3779b97f4a7c15u >> shift_;
    }

    std::uint32_t add(Slot& slot, std::uintptr_t address, std::uint32_t number) {
        slot = {address, generation_, number};
        if (2 * ++used_ > slots_.size()) [[unlikely]]
            grow();
        return number;
    }

    // Apart, so that to find saves no registers.
    [[gnu::noinline]] void grow();

    std::vector<Slot> slots_;  // a power of 2, at most half of it in use
    int shift_;                // leaves the bits of a place among them
    std::size_t used_ = 0;
    std::uint32_t generation_ = 1;
};

}  // namespace cpu
}  // namespace simt
