// CMake compiles this file where libtorch has CUDA and NCCL's header is found. c10d's header is empty without the
// definition.
#define USE_C10D_NCCL

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <stdexcept>
#include <string>

#include "common/distributed/c10d_board.h"
#include "common/distributed/engines.h"

namespace ladder::distributed {
namespace {

/// c10d's options hold a struct of NCCL's, whose size depends on NCCL's version: this file must see the header that
/// libtorch was built with.
void check_version() {
    const std::string here =
        std::to_string(NCCL_MAJOR) + "." + std::to_string(NCCL_MINOR) + "." + std::to_string(NCCL_PATCH);
    const std::string there = c10d::getNcclVersion();
    if (there.rfind(here, 0) != 0)
        throw std::runtime_error("this program was built with the header of NCCL " + here +
                                 ", and libtorch uses NCCL " + there +
                                 ": delete LADDER_NCCL_INCLUDE from the CMake cache, name the folder of the "
                                 "right nccl.h there, and build again");
}

/// All messages of one call: NCCL takes them together, as one kernel on a stream of its own.
class NcclDelivery : public Delivery {
  public:
    NcclDelivery(c10::intrusive_ptr<c10d::Work> work, std::vector<at::Tensor> tensors)
        : work_(std::move(work)), tensors_(std::move(tensors)) {}

    /// The current stream will wait; the host does not. c10d's watchdog aborts what takes longer than the group's
    /// patience.
    void wait(Patience) override { work_->wait(); }

  private:
    c10::intrusive_ptr<c10d::Work> work_;
    std::vector<at::Tensor> tensors_;
};

class NcclEngine : public Engine {
  public:
    NcclEngine(const c10::intrusive_ptr<c10d::Store>& store, int rank, int ranks, Patience patience) {
        check_version();
        // On a stream of high priority NCCL's few blocks find a place before those of a kernel that fills the device.
        const auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
        options->timeout = patience;
        group_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, ranks, options);
    }

    /// c10d wants to be told that a group ends well, and complains of every other end.
    ~NcclEngine() override {
        if (abandoned_) return;
        try {
            group_->shutdown();
        } catch (const std::exception&) {  // what went wrong was said where somebody waited for it
            group_->abort();
        }
    }

    std::vector<std::unique_ptr<Delivery>> begin(const std::vector<Message>& sent,
                                                 const std::vector<Message>& received) override {
        std::vector<at::Tensor> tensors;
        group_->startCoalescing();
        for (const Message& message : sent) {
            std::vector<at::Tensor> one{message.tensor};
            group_->send(one, message.peer, 0);
            tensors.push_back(message.tensor);
        }
        for (const Message& message : received) {
            std::vector<at::Tensor> one{message.tensor};
            group_->recv(one, message.peer, 0);
            tensors.push_back(message.tensor);
        }
        std::vector<std::unique_ptr<Delivery>> way(tensors.size());
        if (!tensors.empty()) way.front() = std::make_unique<NcclDelivery>(group_->endCoalescing(), std::move(tensors));
        return way;
    }

    void abandon() override {
        abandoned_ = true;
        group_->abort();
    }

  private:
    bool abandoned_ = false;
    c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
};

}  // namespace

std::string missing_for_nccl() { return {}; }

std::unique_ptr<Engine> connect_nccl(const Board& board, const std::string& name, int rank, int ranks,
                                     Patience patience) {
    const auto store = c10::make_intrusive<c10d::PrefixStore>(name, dynamic_cast<const C10dBoard&>(board).store());
    return std::make_unique<NcclEngine>(store, rank, ranks, patience);
}

}  // namespace ladder::distributed
