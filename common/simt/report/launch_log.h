#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/simt/device/kernel_resources.h"

namespace simt {

/// Whether a number of which `in_doubt` may be wrong is worth giving: within 5 %, as close as counters are held against
/// a GPU's.
constexpr bool is_known(std::uint64_t number, std::uint64_t in_doubt) { return 20 * in_doubt <= number; }

/// Traffic between a kernel and one named tensor in global memory.
struct TensorTraffic {
    std::string tensor;                    ///< its name: "Q", "K", …
    std::uint64_t bytes_read = 0;          ///< as the threads asked for them
    std::uint64_t bytes_written = 0;       ///< likewise
    std::uint64_t sectors_read = 0;        ///< distinct 32-byte sectors per warp request, what the memory system moves
    std::uint64_t sectors_written = 0;     ///< likewise
    std::uint64_t sectors_read_ideal = 0;  ///< that the distinct bytes of each request would fill, side by side
    std::uint64_t sectors_written_ideal = 0;  ///< likewise
    std::uint64_t requests_read = 0;          ///< warp-wide instructions
    std::uint64_t requests_written = 0;       ///< likewise
    /// By how much sectors_read may be wrong, where lanes of a warp went round a loop unequally often: those with fewer
    /// turns may have left it sooner, which is counted, or sat out its first turns.
    std::uint64_t sectors_read_in_doubt = 0;
    std::uint64_t sectors_written_in_doubt = 0;  ///< likewise

    /// Adds the numbers; the name stays.
    TensorTraffic& operator+=(const TensorTraffic&);
};

/// Everything the CPU machine counts during one launch.
struct Counters {
    std::vector<TensorTraffic> tensors;         ///< one for each name
    std::uint64_t shared_bytes_read = 0;        ///< as the threads asked for them
    std::uint64_t shared_bytes_written = 0;     ///< likewise
    std::uint64_t shared_requests = 0;          ///< warp-wide shared-memory instructions
    std::uint64_t shared_wavefronts = 0;        ///< passes they took: more than the ideal number means bank conflicts
    std::uint64_t shared_wavefronts_ideal = 0;  ///< passes if every bank conflict were gone
    std::uint64_t shared_read_requests = 0;     ///< of the above, those that read
    std::uint64_t shared_read_wavefronts = 0;   ///< and the passes that those took
    std::uint64_t product_read_requests = 0;    ///< of those that read, what products of warpgroups read
    std::uint64_t product_read_wavefronts = 0;  ///< and the passes that those took
    /// By how much shared_wavefronts may be wrong; see TensorTraffic::sectors_read_in_doubt.
    std::uint64_t shared_wavefronts_in_doubt = 0;
    std::uint64_t block_barriers = 0;    ///< completed __syncthreads(), summed over blocks
    std::uint64_t warp_collectives = 0;  ///< completed shuffles, votes, __syncwarp(), ldmatrix and mma

    /// Summed over all tensors.
    std::uint64_t global_bytes_read() const;
    std::uint64_t global_bytes_written() const;

    /// Adds the numbers; tensors of one name are one tensor.
    Counters& operator+=(const Counters&);
};

/// One kernel launch.
struct LaunchRecord {
    std::string kernel;                       ///< its name
    std::string instance = {};                ///< with its template arguments, "my_kernel<f16, 64>"; empty if unknown
    std::array<unsigned, 3> grid{}, block{};  ///< x, y, z: blocks of the grid, threads of a block
    std::size_t shared_bytes_per_block = 0;   ///< dynamic shared memory, as asked for
    bool counted = false;                     ///< false on the GPU, where `counters` stays empty
    Counters counters;                        ///< what the CPU machine counted
    KernelResources resources = {};           ///< what a GPU's compiler and driver say

    /// How many blocks the whole grid has.
    std::uint64_t blocks() const { return std::uint64_t{grid[0]} * grid[1] * grid[2]; }
};

/// While one is alive, every launch made by this thread is recorded in it (the innermost, if several are alive).
class LaunchLog {
  public:
    /// How much is counted.
    enum class Detail {
        bytes,     ///< bytes, barriers and collectives only, several times as fast
        requests,  ///< sectors and wavefronts too: the accesses of a warp are put together to requests
    };

    /// Listens from now on; logs may be nested.
    explicit LaunchLog(Detail detail = Detail::requests);
    ~LaunchLog();
    LaunchLog(const LaunchLog&) = delete;
    LaunchLog& operator=(const LaunchLog&) = delete;

    /// In the order of the launches.
    std::span<const LaunchRecord> records() const { return records_; }

    /// The counters of all recorded launches, summed; tensors of one name are one tensor.
    Counters total() const;

    /// Called by the launch function of either machine.
    static void record(LaunchRecord);

    /// What the log that hears this thread's launches wants to know of them; nothing if there is none.
    static std::optional<Detail> wanted();

  private:
    std::vector<LaunchRecord> records_;
    Detail detail_;
    LaunchLog* outer_;
};

}  // namespace simt
