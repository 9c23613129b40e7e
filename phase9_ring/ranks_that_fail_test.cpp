#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "common/distributed/engine.h"
#include "common/distributed/launch.h"
#include "common/distributed/local_ranks.h"
#include "common/distributed/place.h"
#include "common/reference/checks.h"
#include "common/reference/test_device.h"
#include "phase9_ring/ring.h"

namespace ladder {
namespace {

using namespace distributed;
using namespace std::chrono_literals;

constexpr int kRanks = 4, kCulprit = 2, kRounds = 400;
constexpr Patience kStart = 120s, kPatience = 3s, kGrace = 5s, kBound = 5 * kPatience;
constexpr int kTooLate = 3;  // the exit status of a rank that noticed after that

bool not_run_here() {
    return reference::not_run_on_gpu("its ranks are processes with a CPU machine each") ||
           reference::not_run_for_want_of(missing_for(EngineKind::gloo));
}

/// After a while, from another thread, whatever the rank is doing then.
void signal_soon(int signal) {
    std::thread([=] {
        std::this_thread::sleep_for(100ms);
        raise(signal);
    }).detach();
}

torch::Tensor part(std::int64_t heads, torch::ScalarType dtype = torch::kFloat32) {
    return at::ones({1, heads, 8, 16}, at::TensorOptions().dtype(dtype));
}

/// What the rank does that is at fault; the others do the same without a fault.
void work(const std::string& fault, const Place& place, const std::shared_ptr<Board>& board, int rounds,
          int rank_at_fault = kCulprit) {
    const bool culprit = place.rank == rank_at_fault;
    if (culprit && fault == "never joins") std::this_thread::sleep_for(1h);
    if (culprit && fault == "never says that it is connected") {
        board->put(place.name + "/size/" + std::to_string(place.rank), "ranks: " + std::to_string(place.ranks));
        const auto engine = connect(EngineKind::gloo, *board, place.name, place.rank, place.ranks, true, kPatience);
        std::this_thread::sleep_for(1h);
    }
    const int ranks = culprit && fault == "another size" ? place.ranks + 1 : place.ranks;
    const Group group(board, place.rank, ranks, {.name = place.name, .patience = kPatience});
    if (culprit && fault == "is killed") signal_soon(SIGKILL);
    if (culprit && fault == "stops") signal_soon(SIGSTOP);
    if (culprit && fault == "ends early") _exit(0);
    try {
        for (int round = 0; round < rounds; ++round) {
            const torch::Tensor x = part(culprit && fault == "another shape" ? 3 : 2,
                                         culprit && fault == "another dtype" ? torch::kFloat16 : torch::kFloat32);
            ring_attention(culprit && fault == "bad input" ? x.select(0, 0) : x, x, x, group);
        }
    } catch (const std::exception& error) {
        group.give_up(error.what());
        throw;
    }
}

/// The command that runs the current test alone, through the emulator that a cross-compiled program needs.
std::vector<std::string> this_test() {
    const auto& test = *::testing::UnitTest::GetInstance()->current_test_info();
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    return {"/bin/sh", "-c",
            "exec env -u GTEST_TOTAL_SHARDS -u GTEST_SHARD_INDEX " LADDER_EMULATOR " '" + self +
                "' --gtest_filter=" + test.test_suite_name() + '.' + test.name() + " >/dev/null"};
}

/// All ranks have come so far, to what `where` names, however long a busy machine takes to bring them there.
void meet(const std::string& where, const Place& place, Board& board) {
    board.put(where + '/' + std::to_string(place.rank), "");
    for (int rank = 0; rank < place.ranks; ++rank) board.look(where + '/' + std::to_string(rank), kStart);
}

using Body = std::function<void(Place, const std::shared_ptr<Board>&)>;

[[noreturn]] void be_rank(const Place& place, const Body& body) {
    const auto board = board_of(place, kStart);
    meet("started", place, *board);
    const auto start = std::chrono::steady_clock::now();
    int status = EXIT_SUCCESS;
    try {
        body(place, board);
    } catch (const std::exception& error) {
        say_last_words(*board, place.rank, error.what());
        status = std::chrono::steady_clock::now() - start < kBound ? EXIT_FAILURE : kTooLate;
    }
    _exit(status);
}

/// How ranks end that do this. Each is this test once more: it comes here, too, and finds that it is a rank.
std::vector<RankEnd> launched_as(const Body& body) {
    if (const std::optional<Place> place = place_in_environment()) be_rank(*place, body);
    return launch_ranks(this_test(), kRanks, kGrace);
}

std::vector<RankEnd> launched(const std::string& fault) {
    return launched_as([&](const Place& place, const std::shared_ptr<Board>& board) {
        work(fault, place, board, fault.empty() ? 2 : kRounds);
    });
}

/// All others end by themselves, in time, with one error that names the rank that is at fault, and nobody is left over.
void everybody_blames_the_culprit(const std::string& fault, const std::vector<std::string>& words) {
    const std::vector<RankEnd> ends = launched(fault);
    for (int rank = 0; rank < kRanks; ++rank) {
        if (rank == kCulprit) continue;
        EXPECT_FALSE(ends[rank].abandoned) << "rank " << rank << " did not end by itself";
        EXPECT_EQ(ends[rank].signal, 0) << "rank " << rank;
        EXPECT_EQ(ends[rank].exit_status, EXIT_FAILURE) << "rank " << rank;
        for (const std::string& word : words)
            EXPECT_NE(ends[rank].last_words.find(word), std::string::npos) << rank << ": " << ends[rank].last_words;
    }
    EXPECT_NE(what_failed(ends).find("rank 2"), std::string::npos) << what_failed(ends);
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a rank's process is left over";
    EXPECT_EQ(errno, ECHILD);
}

TEST(RanksThatFail, AKilledRankIsNamed) {
    if (not_run_here()) return;
    everybody_blames_the_culprit("is killed", {"rank 2", "was killed by signal 9"});
}

TEST(RanksThatFail, ARankThatHangsIsNamed) {
    if (not_run_here()) return;
    everybody_blames_the_culprit("stops", {"rank 2", "3 s"});
}

TEST(RanksThatFail, ARankThatDoesNotComeIsNamed) {
    if (not_run_here()) return;
    everybody_blames_the_culprit("never joins", {"rank 2 did not come within 3 s"});
}

TEST(RanksThatFail, ARankThatHangsOnceConnectedIsNamed) {
    if (not_run_here()) return;
    everybody_blames_the_culprit("never says that it is connected", {"rank 2 was not connected within 3 s"});
}

TEST(RanksThatFail, ARankThatEndsEarlyIsNamed) {
    if (not_run_here()) return;
    everybody_blames_the_culprit("ends early", {"rank 2 ended with exit status 0"});
}

TEST(RanksThatFail, ARankInAnotherGroupIsNamed) {
    if (not_run_here()) return;
    everybody_blames_the_culprit("another size", {"rank 2 came with ranks: 5, ranks 0, 1 and 3 with ranks: 4"});
}

TEST(RanksThatFail, ARankWithAnotherShapeIsNamed) {
    if (not_run_here()) return;
    everybody_blames_the_culprit("another shape", {"rank 2 came with 3 query heads", "0, 1 and 3 with 2 query heads"});
}

TEST(RanksThatFail, ARankWithAnotherDtypeIsNamed) {
    if (not_run_here()) return;
    everybody_blames_the_culprit("another dtype", {"rank 2 came with dtype Half", "0, 1 and 3 with dtype Float"});
}

TEST(RanksThatFail, ARankWithBadInputIsNamed) {
    if (not_run_here()) return;
    everybody_blames_the_culprit("bad input", {"rank 2 gave up: ring_attention: q: the shape is [2, 8, 16] of rank 3"});
}

/// Where rank 0 keeps the board, that ends with it.
TEST(RanksThatFail, TheRankThatKeepsTheBoardIsNamed) {
    if (not_run_here()) return;
    const std::vector<RankEnd> ends = launched_as([](Place place, const std::shared_ptr<Board>& launchers) {
        int port = 0;
        std::shared_ptr<Board> board;
        if (place.rank == 0) {
            board = board_kept_here(port);
            launchers->put("port", std::to_string(port));
        } else {
            port = std::stoi(launchers->look("port", kStart).value());
            board = board_at(place.host, port, false, "rank 0", kPatience);
        }
        meet("at rank 0's board", place, *launchers);  // who comes when it has ended cannot know that it was there
        work("is killed", place, board, kRounds, 0);
    });
    for (int rank = 1; rank < kRanks; ++rank) {
        EXPECT_FALSE(ends[rank].abandoned);
        EXPECT_NE(ends[rank].last_words.find("rank 0, who kept it, has ended"), std::string::npos)
            << rank << ": " << ends[rank].last_words;
    }
}

/// What the system sends to a rank that writes to one that is dead: seldom seen otherwise, since it takes good timing.
TEST(RanksThatFail, ABrokenPipeEndsNobody) {
    if (not_run_here()) return;
    const std::vector<RankEnd> ends = launched_as([](const Place& place, const std::shared_ptr<Board>& board) {
        const Group group(board, place.rank, place.ranks, {.name = place.name, .patience = kStart});
        raise(SIGPIPE);
    });
    for (const RankEnd& end : ends) EXPECT_TRUE(end.well()) << "signal " << end.signal << ": " << end.last_words;
}

/// A rank may leave as soon as its group stands, and closes its connections. By then all others must have theirs.
TEST(RanksThatFail, WhoLeavesAtOnceHarmsNobody) {
    if (not_run_here()) return;
    const std::vector<RankEnd> ends = launched_as([](const Place& place, const std::shared_ptr<Board>& board) {
        for (int i = 0; i < 40; ++i)
            const Group group(board, place.rank, place.ranks,
                              {.name = place.name + std::to_string(i), .patience = kStart});
    });
    for (const RankEnd& end : ends) EXPECT_TRUE(end.well()) << "signal " << end.signal << ": " << end.last_words;
}

TEST(RanksThatFail, TheNextRunIsFine) {
    if (not_run_here()) return;
    for (const RankEnd& end : launched("")) EXPECT_TRUE(end.well()) << end.last_words;
}

}  // namespace
}  // namespace ladder
