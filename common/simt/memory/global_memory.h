#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace simt {
inline namespace cpu {

/// A stretch of global memory that kernels may write, cut into cells: the smallest pieces that one access can write.
struct GlobalRegion {
    std::uintptr_t begin, end;
    std::size_t cell_bytes;
    std::uint64_t number;                          ///< regions are numbered as they become known
    std::unique_ptr<std::atomic<bool>[]> written;  ///< by earlier launches, per cell; null: all of it holds values

    std::size_t cells() const { return (end - begin + cell_bytes - 1) / cell_bytes; }
    std::size_t cell_of(std::uintptr_t address) const { return (address - begin) / cell_bytes; }
    std::uintptr_t address_of(std::size_t cell) const { return begin + cell * cell_bytes; }
};

/// Regions in the order of their addresses; none overlaps another.
using GlobalRegions = std::vector<std::shared_ptr<const GlobalRegion>>;

/// Tells the machine that `bytes` bytes from `data` on hold garbage until a kernel writes them. True until the returned
/// handle is gone; let go of it before the memory itself.
std::shared_ptr<void> expect_kernels_to_write(const void* data, std::size_t bytes, std::size_t element_bytes);

/// Tells the machine that the host has written these bytes, so that kernels may read them.
void note_host_write(const void* data, std::size_t bytes);

/// For each element of `element_bytes` from `data` on: whether a kernel (or the host, see note_host_write) has written
/// all of it. Empty if nobody said that kernels are to write this memory.
std::vector<bool> written_elements(const void* data, std::size_t bytes, std::size_t element_bytes);

/// The shape of a tensor that a kernel sees, for messages.
struct GlobalView {
    int tensor;
    std::uintptr_t base;
    std::size_t element_bytes;
    int rank;
    std::array<std::int64_t, 4> extents{}, strides{};  ///< beyond `rank`: 0
};

/// Remembers a view that the host made. What a writable one covers is watched for races, whatever name it is reached
/// by. `alignment`: of its elements.
void note_view(const GlobalView& view, bool writable, std::size_t alignment);

/// What kernels may write, as of now.
GlobalRegions global_regions();

/// The newest view of that tensor that has the element at `address`.
std::optional<GlobalView> global_view(int tensor, std::uintptr_t address);

/// A view, and how many bytes it lies away from an address: 0 for one that has it.
struct NearView {
    GlobalView view;
    std::uintptr_t distance;
    bool below;  ///< the address lies before the view
};

/// Of the remembered views the one closest to `address`, the newest of several.
std::optional<NearView> nearest_view(std::uintptr_t address);

/// The indices of the element that holds `address`, beyond the rank 0; nothing if the view has no such element.
std::optional<std::array<std::int64_t, 4>> indices_of(const GlobalView& view, std::uintptr_t address);

/// The indices of an element of that tensor; empty if no view of it is known that has the element.
std::vector<std::int64_t> global_indices(int tensor, std::uintptr_t address);

/// "O(0, 3, 17, 5)": all indices, also of an element that was reached through a slice.
std::string global_element_name(int tensor, std::uintptr_t address);

}  // namespace cpu
}  // namespace simt
