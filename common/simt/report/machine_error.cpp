#include "common/simt/report/machine_error.h"

#include <charconv>
#include <cstdint>
#include <utility>

namespace simt {

std::string SourceSite::text() const {
    if (!known()) return "unknown line";
    std::string_view path = file();
    if (const auto last = path.rfind('/'); last != path.npos && last > 0)
        if (const auto before = path.rfind('/', last - 1); before != path.npos) path.remove_prefix(before + 1);
    return std::string(path) + ":" + std::to_string(line());
}

std::string_view name_of(Fault fault) {
    switch (fault) {
        case Fault::race:
            return "shared-memory race";
        case Fault::uninitialised_read:
            return "read of uninitialised shared memory";
        case Fault::out_of_bounds:
            return "access out of bounds";
        case Fault::misaligned:
            return "misaligned vector access";
        case Fault::barrier_divergence:
            return "diverged barrier";
        case Fault::collective_divergence:
            return "diverged warp collective";
        case Fault::invalid_collective:
            return "invalid warp collective";
        case Fault::deadlock:
            return "deadlock";
        case Fault::global_race:
            return "race in global memory";
        case Fault::unwritten_read:
            return "read of global memory that no kernel has written";
        case Fault::partial_write:
            return "result written in part";
        case Fault::arena_overflow:
            return "shared memory overflow";
        case Fault::arena_overlap:
            return "overlapping tiles";
        case Fault::copy_in_flight:
            return "asynchronous copy in flight";
        case Fault::copy_not_awaited:
            return "asynchronous copy never waited for";
        case Fault::unseen_by_agent:
            return "missing proxy fence";
        case Fault::barrier_misuse:
            return "misused barrier";
        case Fault::product_in_flight:
            return "registers of a product under way";
        case Fault::unready_registers:
            return "registers not ready for a product";
        case Fault::product_not_awaited:
            return "product not waited for";
        case Fault::bad_descriptor:
            return "wrong descriptor";
        case Fault::bad_registers:
            return "misused register pool";
        case Fault::cluster_misuse:
            return "misused cluster";
        case Fault::unsupported:
            return "instruction that the device does not have";
        case Fault::endless:
            return "block without end";
        case Fault::stack_overflow:
            return "stack overflow";
        case Fault::stray_pointer:
            return "stray pointer";
        case Fault::exception:
            return "exception in device code";
    }
    return "unknown fault";
}

std::string thread_name(int thread) { return "thread " + std::to_string(thread); }

std::string text_of(const std::array<unsigned, 3>& block) {
    return "block (" + std::to_string(block[0]) + ", " + std::to_string(block[1]) + ", " + std::to_string(block[2]) +
           ")";
}

namespace {

/// " = (5, 1)": threadIdx of a thread; empty where its number says as much.
std::string indices_of(unsigned thread, const std::array<unsigned, 3>& block) {
    const auto [x, y, z] = block;
    if (y == 1 && z == 1) return "";
    std::string text = " = (" + std::to_string(thread % x) + ", " + std::to_string(thread / x % y);
    if (z > 1) text += ", " + std::to_string(thread / x / y);
    return text + ")";
}

/// A text with the indices of each thread that it mentions.
std::string with_indices(std::string_view text, const std::array<unsigned, 3>& block) {
    constexpr std::string_view mention = "thread ";
    std::string result;
    for (std::size_t at; (at = text.find(mention)) != text.npos;) {
        const char* const digits = text.data() + at + mention.size();
        unsigned thread = 0;
        const char* const end = std::from_chars(digits, text.data() + text.size(), thread).ptr;
        result.append(text.data(), end);
        if (end != digits) result += indices_of(thread, block);
        text.remove_prefix(std::size_t(end - text.data()));
    }
    return result.append(text);
}

std::string describe(const MachineError::Report& r) {
    std::string text(name_of(r.fault));
    text += " in " + r.kernel;
    if (r.fault != Fault::partial_write) text += ", " + text_of(r.block);
    text += "\n  " + with_indices(r.what, r.threads_per_block);
    for (const Witness& w : {r.first, r.second})
        if (w.thread >= 0)
            text += "\n  thread " + std::to_string(w.thread) + indices_of(unsigned(w.thread), r.threads_per_block) +
                    (w.block ? " of " + text_of(*w.block) : "") + " at " + w.site.text();
    if (!r.advice.empty()) text += "\n  " + r.advice;
    return text;
}

std::string triple(const std::array<unsigned, 3>& size) {
    return "(" + std::to_string(size[0]) + ", " + std::to_string(size[1]) + ", " + std::to_string(size[2]) + ")";
}

/// What CUDA's error codes leave unsaid: the limit that the launch breaks, and the way out. Empty if none is known to
/// be broken.
std::string limit_broken_by(const RefusedLaunch& l) {
    constexpr std::array<unsigned, 3> grid_limit = {0x7fffffff, 65535, 65535}, block_limit = {1024, 1024, 64};
    const std::uint64_t threads = std::uint64_t{l.block[0]} * l.block[1] * l.block[2];
    const auto has_zero = [](const auto& size) { return size[0] == 0 || size[1] == 0 || size[2] == 0; };
    const auto exceeds = [](const auto& size, const auto& limit) {
        return size[0] > limit[0] || size[1] > limit[1] || size[2] > limit[2];
    };
    if (has_zero(l.grid) || has_zero(l.block))
        return "the grid " + triple(l.grid) + " of blocks " + triple(l.block) +
               " is empty in one dimension; every dimension must be at least 1";
    if (threads > std::uint64_t(l.max_threads_per_block))
        return "a block " + triple(l.block) + " has " + std::to_string(threads) + " threads, the device allows " +
               std::to_string(l.max_threads_per_block) + "; use smaller blocks and more of them";
    if (l.launch_bound && threads > l.launch_bound)
        return "a block " + triple(l.block) + " has " + std::to_string(threads) +
               " threads, the kernel's __launch_bounds__ allow " + std::to_string(l.launch_bound) +
               "; launch at most so many, or let __launch_bounds__ name the largest block that you launch";
    if (exceeds(l.block, block_limit))
        return "the block " + triple(l.block) + " is larger than " + triple(block_limit) +
               " in one dimension; put the long one first, or use smaller blocks";
    if (exceeds(l.grid, grid_limit))
        return "the grid " + triple(l.grid) + " is larger than " + triple(grid_limit) +
               " in one dimension; put the long one first, or give each block more work";
    const auto blocks = l.cluster[0] * l.cluster[1] * l.cluster[2];
    if (blocks > 1 && !l.has_clusters)
        return "the launch asks for clusters of " + triple(l.cluster) +
               " blocks, and the device has none; they came with compute capability 9.0. Launch without the attribute";
    if (has_zero(l.cluster) || blocks > kMostClusterBlocks)
        return "a cluster " + triple(l.cluster) + " has " + std::to_string(blocks) + " blocks; 1 to " +
               std::to_string(kMostClusterBlocks) + " are allowed";
    if (l.grid[0] % l.cluster[0] || l.grid[1] % l.cluster[1] || l.grid[2] % l.cluster[2])
        return "the grid " + triple(l.grid) + " is no multiple of the cluster " + triple(l.cluster) +
               " in each dimension; round the grid up, and let blocks without work only meet the others";
    if (l.static_shared_bytes > kMostStaticSharedBytes)
        return "the kernel's __shared__ arrays take " + std::to_string(l.static_shared_bytes) +
               " bytes, CUDA's compiler allows " + std::to_string(kMostStaticSharedBytes) +
               "; carve larger ones from a SharedArena, of memory that the launch asks for";
    if (l.static_shared_bytes + l.required_shared_bytes > l.shared_bytes_limit)
        return "the launch asks for " + std::to_string(l.required_shared_bytes) + " bytes of shared memory per block" +
               (l.static_shared_bytes
                    ? ", the kernel's __shared__ arrays take " + std::to_string(l.static_shared_bytes) + " more"
                    : "") +
               ", the device allows " + std::to_string(l.shared_bytes_limit) +
               "; use smaller tiles, a shorter sequence or a smaller head dimension";
    return "";
}

std::string describe(const RefusedLaunch& l) {
    const std::string limit = limit_broken_by(l);
    return l.kernel + ": " + l.call + " failed with " + l.code_name + " (" + std::to_string(l.code) + ") on " +
           l.device + (limit.empty() ? "" : ": " + limit);
}

}  // namespace

MachineError::MachineError(Report report) : std::runtime_error(describe(report)), report_(std::move(report)) {}

LaunchError::LaunchError(RefusedLaunch launch)
    : std::runtime_error(describe(launch)), RefusedLaunch(std::move(launch)) {}

}  // namespace simt
