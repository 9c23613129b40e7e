#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace ladder::distributed {

/// How long somebody waits for somebody else.
using Patience = std::chrono::milliseconds;

/// A board on which all ranks of a group see what each of them writes: c10d's Store.
class Board {
  public:
    virtual ~Board() = default;

    /// Writes a note, over the one of that name if there is one.
    virtual void put(const std::string& name, const std::string& text) = 0;

    /// The note of that name; nothing if it is not there after that time. All of these throw std::runtime_error where
    /// whoever keeps the board has ended.
    virtual std::optional<std::string> look(const std::string& name, Patience patience) = 0;

    /// Takes a note off, if it is there.
    virtual void remove(const std::string& name) = 0;
};

/// For ranks that are threads of this process.
std::shared_ptr<Board> board_of_this_process();

/// At a TCP address, where one of its users, or another process, must keep it; it ends with that process. `kept_by` is
/// what messages call that: "rank 0".
///
/// Throws std::runtime_error, with the address, where nobody keeps a board there within that time, or the port is
/// taken.
std::shared_ptr<Board> board_at(const std::string& host, int port, bool keeps_it, const std::string& kept_by,
                                Patience patience);

/// The same, kept by this process at a port that the system chooses. `port` receives it.
std::shared_ptr<Board> board_kept_here(int& port);

}  // namespace ladder::distributed
