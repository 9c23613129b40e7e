#include "common/cli/bench/interleave.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>

#ifdef LADDER_WITH_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDAGuard.h>
#endif

namespace ladder::cli::bench {
namespace {

using Calls = std::vector<std::function<void()>>;
using WallClock = std::chrono::steady_clock;

double milliseconds_since(WallClock::time_point begin) {
    return std::chrono::duration<double, std::milli>(WallClock::now() - begin).count();
}

/// Samples every call once, in this order: milliseconds for `repeats[i]` repetitions of calls[i].
class Round {
  public:
    virtual ~Round() = default;
    virtual std::vector<double> run(const Calls& calls, const std::vector<int>& repeats,
                                    const std::vector<std::size_t>& order) = 0;
};

class RoundByWallClock : public Round {
  public:
    std::vector<double> run(const Calls& calls, const std::vector<int>& repeats,
                            const std::vector<std::size_t>& order) override {
        std::vector<double> milliseconds(calls.size());
        for (const std::size_t i : order) {
            const auto begin = WallClock::now();
            for (int n = 0; n < repeats[i]; ++n) calls[i]();
            milliseconds[i] = milliseconds_since(begin);
        }
        return milliseconds;
    }
};

#ifdef LADDER_WITH_CUDA
int attribute(cudaDeviceAttr which, torch::Device device) {
    int value = 0;
    return cudaDeviceGetAttribute(&value, which, device.index()) == cudaSuccess ? value : 0;
}

class RoundByEvents : public Round {
  public:
    explicit RoundByEvents(torch::Device device)
        : guard_(device),
          other_memory_(at::zeros(
              {kTimesCache * attribute(cudaDevAttrL2CacheSize, device) / std::int64_t(sizeof(float))}, device)) {
        if (const int kilohertz = attribute(cudaDevAttrClockRate, device)) cycles_per_millisecond_ = kilohertz;
    }

    std::vector<double> run(const Calls& calls, const std::vector<int>& repeats,
                            const std::vector<std::size_t>& order) override {
        while (events_.size() < calls.size()) events_.push_back(std::make_unique<Pair>());
        if (queueing_ > 0) at::cuda::sleep(std::int64_t(queueing_ * cycles_per_millisecond_));
        const auto begin = WallClock::now();
        for (const std::size_t i : order) {
            other_memory_.sum();
            events_[i]->begin.record();
            for (int n = 0; n < repeats[i]; ++n) calls[i]();
            events_[i]->end.record();
        }
        // A fifth more than the last round took to queue. Beyond the limit the host waits for the GPU anyway.
        queueing_ = std::min(kLongestWait, 1.2 * milliseconds_since(begin) + 0.02);
        std::vector<double> milliseconds;
        for (std::size_t i = 0; i < calls.size(); ++i) {
            events_[i]->end.synchronize();
            milliseconds.push_back(events_[i]->begin.elapsed_time(events_[i]->end));
        }
        return milliseconds;
    }

  private:
    static constexpr double kLongestWait = 3;  // milliseconds
    static constexpr std::int64_t kTimesCache = 4;

    struct Pair {
        at::cuda::CUDAEvent begin{cudaEventDefault}, end{cudaEventDefault};
    };
    c10::cuda::CUDAGuard guard_;
    torch::Tensor other_memory_;  // what is in the cache when a sample begins
    std::vector<std::unique_ptr<Pair>> events_;
    double cycles_per_millisecond_ = 1.5e6;
    double queueing_ = 0;  // milliseconds that the host needed for the last round
};

std::unique_ptr<Round> round_on(torch::Device device) {
    if (device.is_cuda()) return std::make_unique<RoundByEvents>(device);
    return std::make_unique<RoundByWallClock>();
}
#else
std::unique_ptr<Round> round_on(torch::Device device) {
    if (device.is_cuda()) throw std::runtime_error("this build has no CUDA, so there is nothing to time on a GPU");
    return std::make_unique<RoundByWallClock>();
}
#endif

constexpr double kNobodySees = 4;  ///< times the length of a sample

}  // namespace

std::vector<Samples> time_interleaved(const Calls& calls, torch::Device device, const Effort& effort) {
    const std::unique_ptr<Round> round = round_on(device);
    std::vector<int> repeats(calls.size(), 1);
    std::vector<std::size_t> order(calls.size());
    std::iota(order.begin(), order.end(), 0);
    round->run(calls, repeats, order);
    const std::vector<double> estimate = round->run(calls, repeats, order);

    // As often as the fastest, since what a sample takes besides its calls is spread over them. It is some
    // microseconds: where a call takes long, nobody sees it.
    const double fastest = *std::min_element(estimate.begin(), estimate.end());
    const double needed = std::ceil(effort.sample_milliseconds / std::max(fastest, 1e-3));
    const int most = int(std::clamp<double>(needed, 1, effort.most_calls_per_sample));
    std::vector<Samples> samples(calls.size());
    for (std::size_t i = 0; i < calls.size(); ++i)
        samples[i].calls_per_sample = repeats[i] = estimate[i] < kNobodySees * effort.sample_milliseconds ? most : 1;
    round->run(calls, repeats, order);  // warm at this pace too

    std::mt19937 random(1);
    const auto begin = WallClock::now();
    for (int n = 0; n < effort.most_rounds; ++n) {
        if (n >= effort.least_rounds && milliseconds_since(begin) > 1000 * effort.seconds) break;
        std::shuffle(order.begin(), order.end(), random);
        const std::vector<double> milliseconds = round->run(calls, repeats, order);
        for (std::size_t i = 0; i < calls.size(); ++i) samples[i].milliseconds.push_back(milliseconds[i] / repeats[i]);
    }
    return samples;
}

}  // namespace ladder::cli::bench
