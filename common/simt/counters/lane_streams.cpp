#include "common/simt/counters/lane_streams.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace simt {
inline namespace cpu {
namespace {

constexpr std::size_t kKeptCapacity = std::size_t{1} << 14;  // memory that a long stream took goes back
constexpr std::size_t kMaxTrials = std::size_t{1} << 22;     // pairs of passes that are compared at most

using Pass = std::vector<std::uint32_t>;

bool has(const Pass& pass, std::uint32_t instruction) { return std::ranges::find(pass, instruction) != pass.end(); }

/// Cuts streams into passes. All streams are shown to it first: where one of them goes back in the source, from line h
/// to line l, there is a loop that spans at least the lines l to h.
class PassCutter {
  public:
    explicit PassCutter(const std::vector<SourceSite>& sites) : sites_(sites) {}

    void learn_loops(const std::vector<std::uint32_t>& stream) {
        Pass pass;
        for (const std::uint32_t next : stream) {
            for (const std::uint32_t earlier : pass)
                if (goes_back(earlier, next)) {
                    add({sites_[next].file(), sites_[next].line(), sites_[earlier].line()});
                    pass.clear();
                    break;
                }
            pass.push_back(next);
        }
    }

    std::vector<Pass> cut(const std::vector<std::uint32_t>& stream) const {
        std::vector<Pass> passes;
        for (const std::uint32_t next : stream) {
            const auto parts = [&](std::uint32_t earlier) {
                return goes_back(earlier, next) || crosses_a_loop(earlier, next);
            };
            if (passes.empty() || std::ranges::any_of(passes.back(), parts)) passes.emplace_back();
            passes.back().push_back(next);
        }
        return passes;
    }

  private:
    struct Loop {
        const char* file;
        unsigned first, last;
        bool contains(SourceSite s) const { return s.file() == file && first <= s.line() && s.line() <= last; }
        bool contains(const Loop& l) const { return l.file == file && first <= l.first && l.last <= last; }
    };

    /// Keeps outermost loops only. A lane that skips most of a body seems to run a smaller loop than there is.
    void add(const Loop& loop) {
        if (std::ranges::any_of(loops_, [&](const Loop& known) { return known.contains(loop); })) return;
        std::erase_if(loops_, [&](const Loop& known) { return loop.contains(known); });
        loops_.push_back(loop);
    }

    bool goes_back(std::uint32_t from, std::uint32_t to) const {
        return from == to || (sites_[from].file() == sites_[to].file() && sites_[from].line() > sites_[to].line());
    }

    /// Whether some loop contains only one of the two.
    bool crosses_a_loop(std::uint32_t from, std::uint32_t to) const {
        return sites_[from].file() == sites_[to].file() && std::ranges::any_of(loops_, [&](const Loop& loop) {
                   return loop.contains(sites_[from]) != loop.contains(sites_[to]);
               });
    }

    const std::vector<SourceSite>& sites_;
    std::vector<Loop> loops_;
};

/// For each of a lane's passes the warp's pass that it belongs to: ascending, so that the fewest instructions have to
/// be added to the warp's passes, and as early as that allows. A lane has at most as many passes as the warp.
std::vector<std::size_t> fit(const std::vector<Pass>& lane, const std::vector<Pass>& warp) {
    std::vector<std::size_t> places(lane.size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    const std::size_t spare = warp.size() - lane.size(), row = spare + 1;
    if (spare == 0 || lane.size() * row > kMaxTrials) return places;

    const auto missing = [&](std::size_t i, std::size_t skipped) {
        return std::size_t(std::ranges::count_if(lane[i], [&](std::uint32_t x) { return !has(warp[i + skipped], x); }));
    };
    // cost[i][s]: of the lane's passes from i on, if s of the warp's passes have been skipped so far.
    std::vector<std::size_t> cost((lane.size() + 1) * row, 0);
    for (std::size_t i = lane.size(); i-- > 0;)
        for (std::size_t s = row; s-- > 0;) {
            cost[i * row + s] = missing(i, s) + cost[(i + 1) * row + s];
            if (s < spare) cost[i * row + s] = std::min(cost[i * row + s], cost[i * row + s + 1]);
        }
    for (std::size_t i = 0, s = 0; i < lane.size(); ++i) {
        while (s < spare && cost[i * row + s] == cost[i * row + s + 1] &&
               cost[i * row + s] < missing(i, s) + cost[(i + 1) * row + s])
            ++s;
        places[i] = i + s;
    }
    return places;
}

}  // namespace

std::vector<std::uint32_t> shortest_common_supersequence(const std::vector<std::uint32_t>& a,
                                                         const std::vector<std::uint32_t>& b) {
    // common[i][j]: how many elements the rests of a from i on and of b from j on can share.
    const std::size_t row = b.size() + 1;
    std::vector<std::uint32_t> common((a.size() + 1) * row);
    for (std::size_t i = a.size(); i-- > 0;)
        for (std::size_t j = b.size(); j-- > 0;)
            common[i * row + j] = a[i] == b[j] ? 1 + common[(i + 1) * row + j + 1]
                                               : std::max(common[(i + 1) * row + j], common[i * row + j + 1]);
    std::vector<std::uint32_t> result;
    std::size_t i = 0, j = 0;
    while (i < a.size() && j < b.size()) {
        if (a[i] == b[j]) {
            result.push_back(a[i++]);
            ++j;
        } else if (common[(i + 1) * row + j] >= common[i * row + j + 1]) {
            result.push_back(a[i++]);
        } else {
            result.push_back(b[j++]);
        }
    }
    result.insert(result.end(), a.begin() + i, a.end());
    result.insert(result.end(), b.begin() + j, b.end());
    return result;
}

const std::vector<LaneStreams::Step>& LaneStreams::program(const std::vector<SourceSite>& sites) {
    const auto length = [](const Stream& s) { return s.instructions.size(); };
    const auto& longest = std::ranges::max_element(streams_, {}, length)->instructions;
    std::uint32_t lanes = 0;
    for (int lane = 0; lane < 32; ++lane) {
        if (streams_[lane].instructions.empty()) continue;
        if (streams_[lane].instructions != longest) {
            merge_differing(sites);
            return program_;
        }
        lanes |= 1u << lane;
    }
    program_.clear();
    for (const std::uint32_t instruction : longest) program_.push_back({instruction, lanes});
    return program_;
}

void LaneStreams::merge_differing(const std::vector<SourceSite>& sites) {
    PassCutter cutter(sites);
    for (const Stream& stream : streams_) cutter.learn_loops(stream.instructions);
    std::array<std::vector<Pass>, 32> passes;
    for (int lane = 0; lane < 32; ++lane) passes[lane] = cutter.cut(streams_[lane].instructions);
    std::array<int, 32> order;
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater(), [&](int lane) { return passes[lane].size(); });

    std::vector<Pass> warp = passes[order[0]];
    std::array<std::vector<std::size_t>, 32> places;
    for (const int lane : order) {
        places[lane] = fit(passes[lane], warp);
        for (std::size_t i = 0; i < passes[lane].size(); ++i) {
            Pass& joined = warp[places[lane][i]];
            if (joined != passes[lane][i]) joined = shortest_common_supersequence(joined, passes[lane][i]);
        }
    }

    program_.clear();
    std::array<std::size_t, 32> next_pass{};
    for (std::size_t p = 0; p < warp.size(); ++p) {
        const std::size_t first = program_.size();
        for (const std::uint32_t instruction : warp[p]) program_.push_back({instruction, 0});
        for (int lane = 0; lane < 32; ++lane) {
            std::size_t& n = next_pass[lane];
            if (n == passes[lane].size() || places[lane][n] != p) continue;
            std::size_t step = first;
            for (const std::uint32_t instruction : passes[lane][n]) {
                while (program_[step].instruction != instruction) ++step;
                program_[step++].lanes |= 1u << lane;
            }
            ++n;
        }
    }
}

void LaneStreams::clear() {
    if (!any_) return;
    for (Stream& stream : streams_) {
        if (stream.addresses.capacity() > kKeptCapacity) stream = {};
        stream.instructions.clear();
        stream.addresses.clear();
    }
    any_ = false;
}

}  // namespace cpu
}  // namespace simt
