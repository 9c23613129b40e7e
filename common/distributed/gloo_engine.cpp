// CMake compiles this file where Gloo's own headers are found. c10d's header is empty without the definition.
#define USE_C10D_GLOO

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <csignal>

#include "common/distributed/c10d_board.h"
#include "common/distributed/engines.h"

namespace ladder::distributed {
namespace {

/// Gloo writes into its peers' sockets. Once a peer is dead, the system answers with a signal that would end this rank
/// as well, before it can say whom it misses. (Python ignores that signal from its start.)
void outlive_broken_pipes() {
    struct sigaction now {};
    if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

class GlooDelivery : public Delivery {
  public:
    GlooDelivery(c10::intrusive_ptr<c10d::Work> work, at::Tensor tensor)
        : work_(std::move(work)), tensor_(std::move(tensor)) {}

    void wait(Patience patience) override { work_->wait(patience); }

  private:
    c10::intrusive_ptr<c10d::Work> work_;
    at::Tensor tensor_;  // whose memory Gloo reads or writes
};

class GlooEngine : public Engine {
  public:
    GlooEngine(const c10::intrusive_ptr<c10d::Store>& store, int rank, int ranks, bool local, Patience patience) {
        outlive_broken_pipes();
        const auto options = c10d::ProcessGroupGloo::Options::create(patience);
        options->devices.push_back(local ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                                         : c10d::ProcessGroupGloo::createDefaultDevice());
        options->threads = 1;
        group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, ranks, options);
    }

    std::vector<std::unique_ptr<Delivery>> begin(const std::vector<Message>& sent,
                                                 const std::vector<Message>& received) override {
        std::vector<std::unique_ptr<Delivery>> way;
        for (const Message& message : sent) {
            std::vector<at::Tensor> tensors{message.tensor};
            way.push_back(std::make_unique<GlooDelivery>(group_->send(tensors, message.peer, 0), message.tensor));
        }
        for (const Message& message : received) {
            std::vector<at::Tensor> tensors{message.tensor};
            way.push_back(std::make_unique<GlooDelivery>(group_->recv(tensors, message.peer, 0), message.tensor));
        }
        return way;
    }

    void abandon() override {}  // whoever waits for a message gives up by himself

  private:
    c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

}  // namespace

std::string missing_for_gloo() { return {}; }

std::unique_ptr<Engine> connect_gloo(const Board& board, const std::string& name, int rank, int ranks, bool local,
                                     Patience patience) {
    const auto store = c10::make_intrusive<c10d::PrefixStore>(name, dynamic_cast<const C10dBoard&>(board).store());
    return std::make_unique<GlooEngine>(store, rank, ranks, local, patience);
}

}  // namespace ladder::distributed
