#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/distributed/group.h"

namespace ladder::distributed {

/// Which rank this process is, as whoever started it says in its environment: `torchrun`, or launch_ranks(), in the
/// same words (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_USE_AGENT_STORE).
struct Place {
    int rank = 0;              ///< among all
    int ranks = 1;             ///< how many there are
    int local_rank = 0;        ///< among those on this machine: the number of its GPU
    std::string host;          ///< where the board is kept
    int port = 0;              ///< likewise
    bool keeps_board = false;  ///< this rank does
    std::string kept_by;       ///< who keeps the board: whoever started the ranks, or else rank 0
    bool local = false;        ///< all ranks are on this machine
    std::string name;          ///< for the group: another one after each restart
    bool heard = false;        ///< whoever started the ranks reads what they say through say_last_words()
};

/// The variable by which launch_ranks() says so; torchrun does not know it.
inline constexpr char kHeardByLauncher[] = "LADDER_LAUNCHER_HEARS_LAST_WORDS";

/// Nothing where this process was not started as a rank. Throws std::invalid_argument where a variable is missing or is
/// no number, and says which.
std::optional<Place> place_in_environment();

/// The board of a place.
std::shared_ptr<Board> board_of(const Place& place, Patience patience);

}  // namespace ladder::distributed
