#include "phase0_softmax/rung/judge/block_softmax_lookalikes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "common/classroom/judge/first_given.h"
#include "common/reference/comparison.h"

namespace ladder::classroom::phase0_softmax {
namespace {

constexpr int64_t kLanes = 32;

struct State {
    float m = -std::numeric_limits<float>::infinity(), l = 0;
};

State merge(State a, State b) {
    const float m = std::fmax(a.m, b.m), base = std::isinf(m) ? 0 : m;
    return {m, a.l * std::exp(a.m - base) + b.l * std::exp(b.m - base)};
}

State merged(const std::vector<State>& states) {
    State all;
    for (const State& state : states) all = merge(all, state);
    return all;
}

/// What is known when the warps come to merge_across_block, and when each of them has merged its lanes.
struct Block {
    std::vector<State> threads, warps;

    std::vector<State> lanes_of(int64_t warp) const {
        return {threads.begin() + warp * kLanes, threads.begin() + (warp + 1) * kLanes};
    }
};

/// The state with which a thread leaves.
using Leaves = State (*)(const Block& block, int64_t thread);

struct Mistake {
    std::string_view name;
    Leaves leaves;
    bool elements_for_chunks = false;  ///< a step past as many elements as there are threads
};

State of_block(const Block& block, int64_t) { return merged(block.warps); }

constexpr std::array kMistakes{
    Mistake{"phase0_softmax/nothing_merged",
            [](const Block& block, int64_t thread) { return block.threads[std::size_t(thread)]; }},
    Mistake{"phase0_softmax/each_warp_for_itself",
            [](const Block& block, int64_t thread) { return block.warps[std::size_t(thread / kLanes)]; }},
    Mistake{"phase0_softmax/only_the_first_warp_merges_all",
            [](const Block& block, int64_t thread) {
                return thread < kLanes ? merged(block.warps) : block.warps[std::size_t(thread / kLanes)];
            }},
    Mistake{"phase0_softmax/first_lanes_left_unmerged",
            [](const Block& block, int64_t) {
                std::vector<State> left;
                for (std::size_t warp = 0; warp < block.warps.size(); ++warp)
                    left.push_back(block.threads[warp * kLanes]);
                return merged(left);
            }},
    Mistake{"phase0_softmax/states_not_merged_a_second_time",
            [](const Block& block, int64_t thread) {
                const auto lane = std::size_t(thread % kLanes);
                return lane < block.warps.size() ? block.warps[lane] : State{};
            }},
    Mistake{"phase0_softmax/own_state_read_by_every_lane",
            [](const Block& block, int64_t thread) {
                return merged(std::vector<State>(block.warps.size(), block.warps[std::size_t(thread / kLanes)]));
            }},
    Mistake{"phase0_softmax/states_read_by_all_lanes",
            [](const Block& block, int64_t) {
                std::vector<State> read;
                for (std::size_t lane = 0; lane < kLanes; ++lane)
                    read.push_back(block.warps[lane % block.warps.size()]);
                return merged(read);
            }},
    Mistake{"phase0_softmax/own_state_in_the_surplus_lanes",
            [](const Block& block, int64_t thread) {
                std::vector<State> held = block.warps;
                held.resize(kLanes, block.warps[std::size_t(thread / kLanes)]);
                return merged(held);
            }},
    Mistake{"phase0_softmax/last_warp_left_out",
            [](const Block& block, int64_t) {
                return merged({block.warps.begin(), block.warps.end() - 1});
            }},
    Mistake{"phase0_softmax/step_of_threads_not_of_elements", of_block, true},
};

/// y = softmax(x) for one row, as the mistake has it. A thread takes `width` neighbours at a time.
void compute(const Mistake& mistake, const float* x, float* y, int64_t N, int64_t width, int64_t warps) {
    const int64_t threads = warps * kLanes, step = mistake.elements_for_chunks ? threads : threads * width;
    Block block{std::vector<State>(std::size_t(threads)), {}};
    for (int64_t thread = 0; thread < threads; ++thread)
        for (int64_t first = thread * width; first < N; first += step)
            for (int64_t j = first; j < first + width; ++j)
                block.threads[std::size_t(thread)] = merge(block.threads[std::size_t(thread)], {x[j], 1});
    for (int64_t warp = 0; warp < warps; ++warp) block.warps.push_back(merged(block.lanes_of(warp)));
    std::vector<State> left;
    for (int64_t thread = 0; thread < threads; ++thread) left.push_back(mistake.leaves(block, thread));
    for (int64_t j = 0; j < N; ++j) {
        const auto [m, l] = left[std::size_t(j / width % threads)];
        y[j] = std::exp(x[j] - (std::isinf(m) ? 0 : m)) * (1 / l);
    }
}

bool resembles(const torch::Tensor& y, const torch::Tensor& wrong) {
    const torch::Tensor expected = wrong.to(y.scalar_type());
    const torch::Tensor finite = at::isfinite(expected);
    if (!finite.any().item<bool>()) return false;  // an infinity looks like every other
    const double largest = expected.masked_fill(finite.logical_not(), 0).abs().max().item<double>();
    return reference::compare(y, expected.to(torch::kFloat64), expected, largest, "y").passed;
}

}  // namespace

std::vector<std::string_view> block_softmax_lookalikes() {
    std::vector<std::string_view> names;
    for (const Mistake& mistake : kMistakes) names.push_back(mistake.name);
    return names;
}

std::optional<std::string_view> block_softmax_lookalike(const torch::Tensor& x, const torch::Tensor& y, int64_t warps) {
    const torch::Tensor scores = x.to(torch::kFloat32).contiguous();
    const int64_t N = scores.size(1), bytes = 16;
    const int64_t width = N * x.element_size() % bytes == 0 ? bytes / x.element_size() : 1;
    return first_given(kMistakes, [&](const Mistake& mistake) {
        torch::Tensor wrong = at::empty_like(scores);
        for (int64_t row = 0; row < scores.size(0); ++row)
            compute(mistake, scores.data_ptr<float>() + row * N, wrong.data_ptr<float>() + row * N, N, width, warps);
        return resembles(y, wrong);
    });
}

}  // namespace ladder::classroom::phase0_softmax
