#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <string>

namespace ladder::classroom {

/// What a program that nobody trusts may use.
struct Allowance {
    std::chrono::seconds processor{10};  ///< time of all its threads together
    std::size_t memory = 0;              ///< bytes of its address space
};

/// Starts the program under a warden: a process that waits for it, writes its wait status (an int) to `status`, and
/// takes everything with it that the program may have left. Both end when the calling thread does.
///
/// The program has `descriptors` as 0, 1, 2 and 3 and no others, an empty environment, a session of its own, and where
/// the system lets us, namespaces: of processes, users, mounts, network, names and messages. It writes no files and no
/// core. Returns the warden, to be killed and waited for; throws std::system_error if there is none.
pid_t start_under_warden(const std::string& program, const std::array<int, 4>& descriptors, int status,
                         const Allowance& allowance);

}  // namespace ladder::classroom
