#include "common/distributed/group.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <thread>
#include <utility>

#include "common/distributed/engines.h"
#include "common/distributed/followed.h"

namespace ladder::distributed {

std::string missing_for(EngineKind kind) { return kind == EngineKind::gloo ? missing_for_gloo() : missing_for_nccl(); }

std::unique_ptr<Engine> connect(EngineKind kind, const Board& board, const std::string& name, int rank, int ranks,
                                bool local, Patience patience) {
    return kind == EngineKind::gloo ? connect_gloo(board, name, rank, ranks, local, patience)
                                    : connect_nccl(board, name, rank, ranks, patience);
}

// ---- Who is to blame -----------------------------------------------------------------------------------------------
//
// Whoever fails to hear from a rank says at once, on the board, for whom he waits. From there everybody follows the
// notes: a rank that waits for another is not to blame, nor is one whose connection closed because it gave up. Where
// the trail ends, at a rank that has said nothing for a while, is the one that ended or hangs.

namespace {

constexpr Patience kBetweenChecks(100);
constexpr Patience kLongestGrace(5'000);

std::string note(const std::string& kind, int rank) { return kind + "/" + std::to_string(rank); }

std::string names_of(const std::vector<int>& ranks) {
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    for (std::size_t i = 0; i < ranks.size(); ++i)
        text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
    return text;
}

std::string seconds(Patience time) {
    std::ostringstream text;
    text << double(time.count()) / 1e3 << " s";
    return text.str();
}

}  // namespace

std::string note_of_a_rank_that_ended(int rank) { return note("ended", rank); }

/// What all copies of a Group share.
struct Members {
    std::shared_ptr<Board> board;
    int rank = 0, size = 1;
    std::string name;
    Patience patience{};
    std::unique_ptr<Engine> engine;
    std::int64_t calls = 0, bytes_sent = 0;

    std::string own(const std::string& kind, int of) const { return name + "/" + note(kind, of); }

    /// What the board says, within that time, of a rank that will not go on: whom it waits for; or itself, with a
    /// reason.
    std::optional<std::pair<int, std::string>> trouble_of(int of, Patience grace) const {
        const auto until = std::chrono::steady_clock::now() + grace;
        while (true) {
            if (const auto text = board->look(own("waits", of), Patience(0))) {
                const std::size_t line = text->find('\n');
                return {{std::stoi(text->substr(0, line)), text->substr(line + 1)}};
            }
            if (const auto how = board->look(note_of_a_rank_that_ended(of), Patience(0))) return {{of, *how}};
            if (std::chrono::steady_clock::now() >= until) return std::nullopt;
            std::this_thread::sleep_for(kBetweenChecks / 10);
        }
    }

    [[noreturn]] void blame(int peer, const std::string& how) const {
        engine ? engine->abandon() : void();
        board->put(own("waits", rank), std::to_string(peer) + "\n" + how);
        std::vector<int> trail{rank};
        std::string reason = how;
        int culprit = peer;
        while (std::ranges::find(trail, culprit) == trail.end()) {
            trail.push_back(culprit);
            const auto trouble = trouble_of(culprit, std::min(patience / 2, kLongestGrace));
            if (!trouble) throw RankError(culprit, "rank " + std::to_string(culprit) + " " + reason);
            reason = trouble->second;
            if (trouble->first == culprit)
                throw RankError(culprit, "rank " + std::to_string(culprit) + " " + trouble->second);
            culprit = trouble->first;
        }
        trail.erase(trail.begin(), std::ranges::find(trail, culprit));
        std::ranges::sort(trail);
        throw RankError(trail.front(), names_of(trail) + " wait for each other: they did not make the same calls");
    }

    /// A note that rank `of` writes.
    std::string hear(const std::string& what, int of, const std::string& how) const {
        const auto until = std::chrono::steady_clock::now() + patience;
        while (true) {
            if (const auto text = board->look(what, kBetweenChecks)) return *text;
            if (!trouble_of(of, Patience(0)) && std::chrono::steady_clock::now() < until) continue;
            if (const auto last = board->look(what, Patience(0))) return *last;  // written just before it ended
            blame(of, how);
        }
    }

    /// Gloo lets a rank go while others still connect. If it ended then, it would close connections that they are still
    /// setting up.
    void await_all_connected() const {
        board->put(own("connected", rank), "");
        const auto until = std::chrono::steady_clock::now() + patience;
        for (int other = 0; other < size; ++other)
            while (!board->look(own("connected", other), kBetweenChecks)) {
                // Who has not come so far may himself wait for another, who has ended.
                int ended = 0;
                while (ended < size && (ended == rank || !trouble_of(ended, Patience(0)))) ++ended;
                const bool is_late = std::chrono::steady_clock::now() >= until;
                if ((ended == size && !is_late) || board->look(own("connected", other), Patience(0))) continue;
                if (ended < size) blame(ended, "ended before all were connected");
                blame(other, "was not connected within " + seconds(patience));
            }
    }
};

// ---- Messages ------------------------------------------------------------------------------------------------------

void Exchange::wait() {
    if (way_.empty()) return;
    RECORD_USER_SCOPE("wait");
    for (Under& under : std::exchange(way_, {})) {
        if (!under.delivery) continue;
        const auto start = std::chrono::steady_clock::now();
        try {
            under.delivery->wait(group_->patience);
        } catch (const std::exception&) {
            const bool at_once = std::chrono::steady_clock::now() - start < group_->patience;
            group_->blame(under.message.peer, at_once      ? "ended before its tensors had arrived"
                                              : under.sent ? "took no tensor for " + seconds(group_->patience)
                                                           : "sent no tensor for " + seconds(group_->patience));
        }
    }
}

Exchange Group::exchange(const std::vector<Message>& sent, const std::vector<Message>& received) const {
    const auto some = [](const std::vector<Message>& all) {
        std::vector<Message> with_elements;
        std::ranges::copy_if(all, std::back_inserter(with_elements),
                             [](const Message& m) { return m.tensor.numel() > 0; });
        return with_elements;
    };
    const std::vector<Message> given = some(sent), taken = some(received);
    Exchange exchange;
    exchange.group_ = members_;
    if (given.empty() && taken.empty()) return exchange;
    std::vector<std::unique_ptr<Delivery>> way;
    try {
        way = members_->engine->begin(given, taken);
    } catch (const std::exception&) {
        members_->blame((given.empty() ? taken : given).front().peer, "ended before tensors could be sent");
    }
    for (std::size_t i = 0; i < way.size(); ++i) {
        const bool is_sent = i < given.size();
        exchange.way_.push_back({std::move(way[i]), is_sent ? given[i] : taken[i - given.size()], is_sent});
    }
    for (const Message& message : given)
        members_->bytes_sent += message.tensor.numel() * std::int64_t(message.tensor.element_size());
    return exchange;
}

// ---- The group -----------------------------------------------------------------------------------------------------

Group::Group(std::shared_ptr<Board> board, int rank, int size, const GroupOptions& options)
    : members_(std::make_shared<Members>()) {
    if (size < 1 || rank < 0 || rank >= size)
        throw std::invalid_argument("group: rank " + std::to_string(rank) + " of " + std::to_string(size) +
                                    " ranks; ranks are 0 to one less than their number");
    Members& m = *members_;
    m.board = std::move(board);
    m.rank = rank;
    m.size = size;
    m.name = options.name;
    m.patience = options.patience;
    if (size == 1) return;
    m.board->put(m.own("size", rank), "ranks: " + std::to_string(size));
    std::vector<std::string> sizes;
    for (int other = 0; other < size; ++other) {
        sizes.push_back(m.hear(m.own("size", other), other, "did not come within " + seconds(m.patience)));
        if (sizes.back() == sizes.front()) continue;
        for (int rest = other + 1; rest < size; ++rest)
            sizes.push_back(m.board->look(m.own("size", rest), kBetweenChecks).value_or(sizes.front()));
        require_same(sizes, "group");
    }
    try {
        m.engine = connect(options.engine, *m.board, m.name, rank, size, options.local, m.patience);
        if (options.link) m.engine = followed(std::move(m.engine), *options.link, m.patience);
    } catch (const std::exception& error) {
        for (int other = 0; other < size; ++other)
            if (other != rank && m.trouble_of(other, Patience(0))) m.blame(other, "ended before all were connected");
        const std::string why = error.what();
        const std::string reason = "could not be connected with the others: " + why.substr(0, why.find('\n'));
        give_up(reason);
        throw std::runtime_error("rank " + std::to_string(rank) + ' ' + reason);
    }
    m.await_all_connected();
}

int Group::rank() const { return members_->rank; }
int Group::size() const { return members_->size; }
std::int64_t Group::bytes_sent() const { return members_->bytes_sent; }

std::vector<std::string> Group::hear_all(const std::string& words) const {
    Members& m = *members_;
    if (m.size == 1) return {words};
    const std::string call = "call" + std::to_string(m.calls++);
    m.board->put(m.own(call, m.rank), words);
    std::vector<std::string> all;
    for (int other = 0; other < m.size; ++other)
        all.push_back(other == m.rank
                          ? words
                          : m.hear(m.own(call, other), other,
                                   "did not make the call that the others made, within " + seconds(m.patience)));
    // All have come to this call, so all have heard everything of the one before.
    if (m.calls > 1) m.board->remove(m.own("call" + std::to_string(m.calls - 2), m.rank));
    return all;
}

void Group::give_up(const std::string& reason) const noexcept {
    if (size() == 1) return;
    try {
        if (members_->trouble_of(rank(), Patience(0))) return;  // the first reason is the one that matters
        members_->board->put(members_->own("waits", rank()), std::to_string(rank()) + "\ngave up: " + reason);
    } catch (const std::exception&) {  // nobody is left to be told
    }
}

void require_same(const std::vector<std::string>& words, const std::string& about) {
    std::map<std::string, std::vector<int>> who;
    for (std::size_t rank = 0; rank < words.size(); ++rank) who[words[rank]].push_back(int(rank));
    if (who.size() <= 1) return;
    const auto& [usual, most] = *std::ranges::max_element(who, [](const auto& a, const auto& b) {
        return std::pair(a.second.size(), -a.second.front()) < std::pair(b.second.size(), -b.second.front());
    });
    for (const auto& [said, ranks] : who) {
        if (said == usual) continue;
        // The first line that differs says enough.
        std::istringstream here(said), there(usual);
        std::string its_line, usual_line;
        while (std::getline(here, its_line) && std::getline(there, usual_line) && its_line == usual_line) {
        }
        throw RankError(ranks.front(), about + ": " + names_of(ranks) + " came with " + its_line + ", " +
                                           names_of(most) + " with " + usual_line + "; all must come with the same");
    }
}

}  // namespace ladder::distributed
