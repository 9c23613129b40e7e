#include "common/simt/memory/thread_clocks.h"

#include <algorithm>

namespace simt {
inline namespace cpu {

void ThreadClocks::release(int thread, std::uint32_t interval, std::uint32_t since, Clock& into) const {
    into.resize(threads_, 0);
    const auto known = row(thread);
    for (std::size_t u = 0; u < threads_; ++u) into[u] = std::max(into[u], known[u]);
    const std::size_t first = std::size_t(thread) / 32 * 32;
    for (std::size_t u = first; u < std::min(first + 32, threads_); ++u) into[u] = std::max(into[u], since - 1);
    into[std::size_t(thread)] = std::max(into[std::size_t(thread)], interval);
}

void ThreadClocks::acquire(int thread, const Clock& from) {
    std::uint32_t* const known = known_.data() + std::size_t(thread) * threads_;
    for (std::size_t u = 0; u < from.size(); ++u) known[u] = std::max(known[u], from[u]);
}

}  // namespace cpu
}  // namespace simt
