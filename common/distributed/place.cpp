#include "common/distributed/place.h"

#include <charconv>
#include <cstdlib>
#include <stdexcept>

namespace ladder::distributed {
namespace {

std::optional<std::string> variable(const char* name) {
    const char* const value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
}

std::string required(const char* name) {
    if (const auto value = variable(name)) return *value;
    throw std::invalid_argument(std::string(name) +
                                " is not set, though RANK is; torchrun sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR "
                                "and MASTER_PORT");
}

int number(const char* name) {
    const std::string text = required(name);
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0)
        throw std::invalid_argument(std::string(name) + " is \"" + text + "\"; a number from 0 on is accepted");
    return value;
}

}  // namespace

std::optional<Place> place_in_environment() {
    if (!variable("RANK")) return std::nullopt;
    Place place;
    place.rank = number("RANK");
    place.ranks = number("WORLD_SIZE");
    place.local_rank = number("LOCAL_RANK");
    place.host = required("MASTER_ADDR");
    place.port = number("MASTER_PORT");
    if (place.rank >= place.ranks)
        throw std::invalid_argument("RANK is " + std::to_string(place.rank) + " and WORLD_SIZE " +
                                    std::to_string(place.ranks) + "; ranks are 0 to one less than their number");
    const bool offered = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
    place.keeps_board = place.rank == 0 && !offered;
    place.kept_by = offered ? "the process that started the ranks" : "rank 0";
    place.local = variable("LOCAL_WORLD_SIZE").value_or("") == variable("WORLD_SIZE");
    place.name = "ring" + variable("TORCHELASTIC_RESTART_COUNT").value_or("");
    place.heard = variable(kHeardByLauncher).has_value();
    return place;
}

std::shared_ptr<Board> board_of(const Place& place, Patience patience) {
    return board_at(place.host, place.port, place.keeps_board, place.kept_by, patience);
}

}  // namespace ladder::distributed
