#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "common/simt/report/source_site.h"

namespace simt {

/// What `__shared__` arrays of one kernel may take: more does not compile for a GPU.
inline constexpr std::size_t kMostStaticSharedBytes = 48 * 1024;

/// Blocks of a cluster: what every device that has clusters allows.
inline constexpr unsigned kMostClusterBlocks = 8;

/// What the CPU machine can find wrong with a kernel while it runs.
enum class Fault {
    race,                   ///< two threads touch one shared element, one of them writes, no barrier between
    uninitialised_read,     ///< shared memory read before anyone wrote it
    out_of_bounds,          ///< an index outside a tile or tensor
    misaligned,             ///< a vector access that is not aligned to its size
    barrier_divergence,     ///< the threads of a block do not all reach the same __syncthreads()
    collective_divergence,  ///< the lanes of a mask do not all reach the same warp collective
    invalid_collective,     ///< a mask without the caller, or a shuffle that reads a lane outside the mask
    deadlock,               ///< no thread can go on
    global_race,            ///< two threads touch one element of global memory, one writes, and nothing orders them
    unwritten_read,         ///< an output or workspace read before any kernel wrote it
    partial_write,          ///< an element of a result that no kernel wrote
    arena_overflow,         ///< the kernel carves more shared memory than its launch asked for
    arena_overlap,          ///< two arenas carve different tiles from the same bytes
    copy_in_flight,         ///< an element touched while an asynchronous copy still fills it
    copy_not_awaited,       ///< a thread returned with an asynchronous copy that it never waited for
    unseen_by_agent,    ///< memory that a thread stored, and no fence.proxy.async showed to the agent that comes to it
    barrier_misuse,     ///< an mbarrier or a named barrier used against its rules
    product_in_flight,  ///< registers of a product touched before the wait for it
    unready_registers,  ///< registers that a product uses without begin_products(), or that nobody has written
    product_not_awaited,  ///< a product that nobody waits for, or not in the right way
    bad_descriptor,       ///< a matrix descriptor or a tensor map that does not describe the tile
    bad_registers,        ///< setmaxnreg against its rules
    cluster_misuse,       ///< another block of the cluster reached before it has begun or after it has ended
    unsupported,          ///< an instruction that the imitated device does not have
    endless,              ///< a block that has used up its budget of time, or of meetings
    stack_overflow,       ///< a thread with more local memory than there is, or with calls that never return
    stray_pointer,        ///< a pointer to where the kernel has no memory
    exception,            ///< an exception in device code, of C++ or of the processor
};

/// In words: "shared-memory race".
std::string_view name_of(Fault);

/// One thread's part in a fault.
struct Witness {
    int thread = -1;                                 ///< Linear index in the block; -1 where no thread is to be named.
    SourceSite site;                                 ///< The source line that it was at.
    std::optional<std::array<unsigned, 3>> block{};  ///< Where two blocks are involved.
};

/// "block (1, 0, 0)"
std::string text_of(const std::array<unsigned, 3>& block);

/// "thread 7"
std::string thread_name(int thread);

/// A diagnosed mistake in a kernel: what happened, to which kernel and block, and the threads and source lines
/// involved.
class MachineError : public std::runtime_error {
  public:
    /// The diagnosis in parts; what() is all of it as text.
    struct Report {
        Fault fault{};                    ///< the kind of mistake
        std::string kernel{};             ///< its name
        std::array<unsigned, 3> block{};  ///< (means nothing for partial_write)
        Witness first{};                  ///< the thread that did what is wrong; mostly it ran when that was found
        Witness second{};                 ///< the other party, if there is one
        std::string what{};               ///< the finding in a sentence or two
        std::string advice{};             ///< what would mend it; may be empty
        /// Where the code of the first witness stood, innermost first: addresses to return to, for who can tell a line
        /// from them. A line of a helper alone does not say who called it. Empty if the witness had returned, or did
        /// not run when the fault was found, and did not wait in a collective or at a barrier either.
        std::vector<std::uintptr_t> calls{};
        /// The launch's. In blocks of more than one dimension the message gives, beside a thread's number, its indices.
        std::array<unsigned, 3> threads_per_block{1, 1, 1};
    };

    /// With the report as text for what().
    explicit MachineError(Report report);

    /// The diagnosis in parts.
    const Report& report() const { return report_; }

  private:
    Report report_;
};

/// A launch, or a call that prepares one, that the device refused: what was asked for, and what the device allows.
struct RefusedLaunch {
    std::string kernel{};                      ///< its name
    std::string call{};                        ///< the CUDA call that failed, e.g. "cudaLaunchKernelEx"
    int code = 0;                              ///< cudaError_t
    std::string code_name{};                   ///< e.g. "cudaErrorInvalidValue"
    std::array<unsigned, 3> grid{}, block{};   ///< x, y, z, as asked for
    std::size_t required_shared_bytes = 0;     ///< for each block, as asked for
    std::size_t static_shared_bytes = 0;       ///< of the kernel's `__shared__` arrays, besides those
    std::size_t shared_bytes_limit = 0;        ///< the device's limit with opt-in
    int max_threads_per_block = 0;             ///< of the device
    std::array<unsigned, 3> cluster{1, 1, 1};  ///< blocks of a cluster, x, y, z, as asked for
    bool has_clusters = true;                  ///< the device
    unsigned launch_bound = 0;                 ///< threads that the kernel's `__launch_bounds__` allow; 0: no such word
    std::string device{};                      ///< product name
};

/// The device refused a launch. The machine that ran it keeps working.
class LaunchError : public std::runtime_error, public RefusedLaunch {
  public:
    /// With all of it as text for what().
    explicit LaunchError(RefusedLaunch launch);
};

}  // namespace simt
