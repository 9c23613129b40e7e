#pragma once

#include <cstddef>
#include <span>

namespace ladder::classroom {

/// Memory between two pages that nobody may touch: what steps over either end is stopped at once. The end of the memory
/// is within 16 bytes of the second page, and its beginning is aligned to 16 bytes.
class GuardedMemory {
  public:
    /// None.
    GuardedMemory() = default;

    /// Of so many bytes, all 0. Throws std::system_error where there is no memory.
    explicit GuardedMemory(std::size_t bytes);
    ~GuardedMemory();

    /// The memory goes along, and stays where it is.
    GuardedMemory(GuardedMemory&& other) noexcept;
    GuardedMemory& operator=(GuardedMemory&& other) noexcept;
    GuardedMemory(const GuardedMemory&) = delete;
    GuardedMemory& operator=(const GuardedMemory&) = delete;

    /// From here on a write is stopped too.
    void make_read_only();

    /// The first byte.
    void* data() const { return data_; }

  private:
    std::span<std::byte> mapping_;
    void* data_ = nullptr;
};

/// Addresses at which nothing can be read or written, each at a place of its own that is drawn: what views of a tensor
/// name, whose elements lie in a GuardedMemory.
class ClosedAddresses {
  public:
    /// As many as the memory has bytes. Throws std::system_error where there are none.
    explicit ClosedAddresses(const GuardedMemory& memory, std::size_t bytes);
    ~ClosedAddresses();
    ClosedAddresses(const ClosedAddresses&) = delete;
    ClosedAddresses& operator=(const ClosedAddresses&) = delete;

    /// The first one; it is aligned as the memory's first byte is.
    void* data() const { return data_; }

  private:
    std::span<std::byte> mapping_;
    void* data_ = nullptr;
};

}  // namespace ladder::classroom
