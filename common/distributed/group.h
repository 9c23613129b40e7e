#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/distributed/engine.h"

namespace ladder::distributed {

/// Another rank ended, hangs, or does something else than this one. `what()` is one line that names it.
class RankError : public std::runtime_error {
  public:
    /// Because of `rank`.
    RankError(int rank, const std::string& what) : std::runtime_error(what), rank_(rank) {}

    /// The rank at which it began.
    int rank() const { return rank_; }

  private:
    int rank_;
};

/// How a group is made.
struct GroupOptions {
    EngineKind engine = EngineKind::gloo;  ///< what carries its tensors
    std::string name = "ring";             ///< groups of one name on one board are one group
    Patience patience = Patience(30'000);  ///< for anything that one rank waits for another for
    bool local = true;                     ///< all ranks are on this machine

    /// Where set, messages are followed(), over a link that carries so many bytes a second each way.
    std::optional<double> link = {};
};

class Group;

/// Messages that Group::exchange() has begun to send and to receive.
class Exchange {
  public:
    Exchange() = default;

    /// Returns when all have been sent and have arrived; on a GPU, when the current stream will wait for that. At once,
    /// the second time. Throws RankError.
    void wait();

  private:
    friend class Group;
    struct Under {
        std::unique_ptr<Delivery> delivery;
        Message message;
        bool sent = false;
    };
    std::shared_ptr<struct Members> group_;
    std::vector<Under> way_;
};

/// Ranks 0, 1, …, size - 1, each a process or a thread with a part of the data, and this one among them. Copies are the
/// same group.
///
/// All ranks must call the same functions in the same order. Whoever waits for a rank that has ended, that hangs, or
/// that was given other arguments, gets a RankError that names it, within about twice the group's patience.
/// If the one who keeps the board ends while the others still connect to each other, that is about five times: Gloo
/// waits so long for a first connection.
class Group {
  public:
    /// Joins the others, and returns when all have come. Throws RankError where one does not come, or believes in
    /// another size.
    Group(std::shared_ptr<Board> board, int rank, int size, const GroupOptions& options = {});

    int rank() const;  ///< this one's number
    int size() const;  ///< how many there are

    /// This rank's neighbours on the ring.
    int next() const { return (rank() + 1) % size(); }
    int previous() const { return (rank() + size() - 1) % size(); }

    /// Begins to send and to receive, and returns at once. Tensors must be contiguous, and must not be written (those
    /// received: not be read either) before wait(). Empty ones are not sent.
    Exchange exchange(const std::vector<Message>& sent, const std::vector<Message>& received) const;

    /// Tells everybody `words`, and returns what each rank said. Throws RankError where one says nothing.
    std::vector<std::string> hear_all(const std::string& words) const;

    /// Tells everybody that this rank cannot go on, so that nobody waits for it. Does not throw.
    void give_up(const std::string& reason) const noexcept;

    /// How many bytes of tensors this rank has sent so far.
    std::int64_t bytes_sent() const;

  private:
    std::shared_ptr<struct Members> members_;
};

/// The board's note in which whoever watches over the ranks' processes says how one of them ended.
std::string note_of_a_rank_that_ended(int rank);

/// Throws RankError unless all of `words`, what the ranks said, are the same: names those who differ from most.
/// `about` begins the message.
void require_same(const std::vector<std::string>& words, const std::string& about);

}  // namespace ladder::distributed
