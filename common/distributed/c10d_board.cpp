#include "common/distributed/c10d_board.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <utility>

namespace ladder::distributed {
namespace {

constexpr std::chrono::microseconds kFirstPause(20), kLongestPause(5'000);

std::string first_line(const std::exception& error) {
    const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
    const std::string text = of_torch ? of_torch->what_without_backtrace() : error.what();
    return text.substr(0, text.find('\n'));
}

c10::intrusive_ptr<c10d::TCPStore> tcp_store(const std::string& host, int port, bool keeps_it, Patience patience) {
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(port);
    options.isServer = keeps_it;
    options.waitWorkers = false;
    options.timeout = patience;
    return c10::make_intrusive<c10d::TCPStore>(host, options);
}

}  // namespace

C10dBoard::C10dBoard(c10::intrusive_ptr<c10d::Store> store, std::string kept_by)
    : store_(std::move(store)), kept_by_(std::move(kept_by)) {}

template <class Act>
auto C10dBoard::with_store(Act&& act) {
    try {
        return act();
    } catch (const std::exception& error) {
        throw std::runtime_error("the board that the ranks share is gone: " + kept_by_ + ", who kept it, has ended (" +
                                 first_line(error) + ")");
    }
}

// No note is empty on the wire: there TCPStore would announce bytes to the system that never come, which holds the
// announcement back for 200 ms.
void C10dBoard::put(const std::string& name, const std::string& text) {
    with_store([&] {
        std::vector<std::uint8_t> bytes(text.begin(), text.end());
        bytes.push_back('.');
        store_->set(name, bytes);
        return 0;
    });
}

// Stores wait too, but some of them throw the same error for a note that is not there in time and for a store that is
// not there any more.
std::optional<std::string> C10dBoard::look(const std::string& name, Patience patience) {
    const auto until = std::chrono::steady_clock::now() + patience;
    auto pause = kFirstPause;
    return with_store([&]() -> std::optional<std::string> {
        while (!store_->check({name})) {
            if (std::chrono::steady_clock::now() >= until) return std::nullopt;
            std::this_thread::sleep_for(pause);
            pause = std::min(2 * pause, kLongestPause);
        }
        const std::vector<std::uint8_t> bytes = store_->get(name);
        return std::string(bytes.begin(), bytes.end() - 1);
    });
}

void C10dBoard::remove(const std::string& name) {
    with_store([&] { return store_->deleteKey(name); });
}

std::shared_ptr<Board> board_of_this_process() {
    return std::make_shared<C10dBoard>(c10::make_intrusive<c10d::HashStore>(), "this process");
}

std::shared_ptr<Board> board_at(const std::string& host, int port, bool keeps_it, const std::string& kept_by,
                                Patience patience) {
    try {
        return std::make_shared<C10dBoard>(tcp_store(host, port, keeps_it, patience), kept_by);
    } catch (const std::exception& error) {
        throw std::runtime_error(
            (keeps_it ? "no board can be kept at " : "nobody, though " + kept_by + " should, keeps a board at ") +
            host + ":" + std::to_string(port) + ": " + first_line(error) +
            "; MASTER_ADDR and MASTER_PORT must be the same for all ranks, and the port free");
    }
}

std::shared_ptr<Board> board_kept_here(int& port) {
    const auto store = tcp_store("127.0.0.1", 0, true, Patience(30'000));
    port = store->getPort();
    return std::make_shared<C10dBoard>(store, "this process");
}

}  // namespace ladder::distributed
