#include "common/distributed/followed.h"

#include <ATen/record_function.h>

#include <exception>
#include <thread>
#include <utility>

namespace ladder::distributed {
namespace {

using Parts = std::vector<std::unique_ptr<Delivery>>;

/// All that goes one way in an exchange.
class Flight {
  public:
    /// `name` is a literal: who records it may keep the pointer.
    Flight(const char* name, Parts parts, std::chrono::duration<double> on_the_link, Patience patience)
        : parts_(std::move(parts)), thread_([=, this] { follow(name, on_the_link, patience); }) {}

    void wait() {
        if (thread_.joinable()) thread_.join();
        if (error_) std::rethrow_exception(error_);
    }

  private:
    void follow(const char* name, std::chrono::duration<double> on_the_link, Patience patience) {
        RECORD_USER_SCOPE(name);
        try {
            for (const auto& part : parts_) part->wait(patience);
            std::this_thread::sleep_for(on_the_link);
        } catch (...) {
            error_ = std::current_exception();
        }
    }

    Parts parts_;
    std::exception_ptr error_;
    std::jthread thread_;  // the last, so that it begins when all else is there
};

/// One message of a flight arrives with all others.
class FollowedDelivery : public Delivery {
  public:
    explicit FollowedDelivery(std::shared_ptr<Flight> flight) : flight_(std::move(flight)) {}

    void wait(Patience) override { flight_->wait(); }

  private:
    std::shared_ptr<Flight> flight_;
};

class FollowedEngine : public Engine {
  public:
    FollowedEngine(std::unique_ptr<Engine> engine, double bytes_a_second, Patience patience)
        : engine_(std::move(engine)), bytes_a_second_(bytes_a_second), patience_(patience) {}

    std::vector<std::unique_ptr<Delivery>> begin(const std::vector<Message>& sent,
                                                 const std::vector<Message>& received) override {
        Parts there = engine_->begin(sent, received), back;
        back.assign(std::make_move_iterator(there.begin() + std::ptrdiff_t(sent.size())),
                    std::make_move_iterator(there.end()));
        there.resize(sent.size());
        std::vector<std::unique_ptr<Delivery>> way;
        const auto fly = [&](const char* name, const std::vector<Message>& messages, Parts parts) {
            if (messages.empty()) return;
            double bytes = 0;
            for (const Message& message : messages) bytes += double(message.tensor.nbytes());
            const auto flight = std::make_shared<Flight>(
                name, std::move(parts), std::chrono::duration<double>(bytes / bytes_a_second_), patience_);
            for (std::size_t i = 0; i < messages.size(); ++i) way.push_back(std::make_unique<FollowedDelivery>(flight));
        };
        fly("send", sent, std::move(there));
        fly("receive", received, std::move(back));
        return way;
    }

    void abandon() override { engine_->abandon(); }

  private:
    std::unique_ptr<Engine> engine_;
    double bytes_a_second_;
    Patience patience_;
};

}  // namespace

std::unique_ptr<Engine> followed(std::unique_ptr<Engine> engine, double bytes_a_second, Patience patience) {
    return std::make_unique<FollowedEngine>(std::move(engine), bytes_a_second, patience);
}

}  // namespace ladder::distributed
