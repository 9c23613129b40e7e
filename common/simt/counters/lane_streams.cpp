#include "common/simt/counters/lane_streams.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

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
    explicit PassCutter(const std::vector<LaneStreams::Origin>& origins) : origins_(origins) {}

    void learn_loops(const std::vector<std::uint32_t>& stream) {
        Pass pass;
        for (const std::uint32_t next : stream) {
            const auto back =
                std::ranges::find_if(pass, [&](std::uint32_t earlier) { return goes_back(earlier, next); });
            if (back != pass.end()) {
                unsigned last = site(*back).line();
                // A lane that comes by a mark again has gone round a loop; what it did in between is in it, too.
                if (*back == next && origins_[next].is_mark)
                    for (const std::uint32_t inside : std::ranges::subrange(back, pass.end()))
                        if (site(inside).file() == site(next).file()) last = std::max(last, site(inside).line());
                add({site(next).file(), site(next).line(), last});
                pass.clear();
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

    SourceSite site(std::uint32_t instruction) const { return origins_[instruction].site; }

    bool goes_back(std::uint32_t from, std::uint32_t to) const {
        return from == to || (site(from).file() == site(to).file() && site(from).line() > site(to).line());
    }

    /// Whether some loop contains only one of the two.
    bool crosses_a_loop(std::uint32_t from, std::uint32_t to) const {
        return site(from).file() == site(to).file() && std::ranges::any_of(loops_, [&](const Loop& loop) {
                   return loop.contains(site(from)) != loop.contains(site(to));
               });
    }

    const std::vector<LaneStreams::Origin>& origins_;
    std::vector<Loop> loops_;
};

/// For each of a lane's passes the warp's pass that it belongs to: ascending, so that the fewest instructions have to
/// be added to the warp's passes, and as early or as late as that allows.
struct Places {
    std::vector<std::size_t> early, late;
};

/// A lane has at most as many passes as the warp.
Places fit(const std::vector<Pass>& lane, const std::vector<Pass>& warp) {
    const std::size_t spare = warp.size() - lane.size(), row = spare + 1;
    Places places{std::vector<std::size_t>(lane.size()), std::vector<std::size_t>(lane.size())};
    std::iota(places.early.begin(), places.early.end(), std::size_t{0});
    std::iota(places.late.begin(), places.late.end(), spare);
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
    for (std::size_t i = 0, early = 0, late = 0; i < lane.size(); ++i) {
        const auto may_skip = [&](std::size_t s) { return s < spare && cost[i * row + s] == cost[i * row + s + 1]; };
        while (may_skip(early) && cost[i * row + early] < missing(i, early) + cost[(i + 1) * row + early]) ++early;
        while (may_skip(late)) ++late;
        places.early[i] = i + early;
        places.late[i] = i + late;
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

const LaneStreams::Stream& LaneStreams::longest() const {
    return *std::ranges::max_element(streams_, {}, [](const Stream& s) { return s.instructions.size(); });
}

bool LaneStreams::put_together(const std::vector<Origin>& origins, Reading reading) {
    program_.clear();
    const auto& instructions = longest().instructions;
    std::uint32_t lanes = 0;
    for (int lane = 0; lane < 32; ++lane) {
        if (streams_[lane].instructions.empty()) continue;
        if (streams_[lane].instructions != instructions) return merge_differing(origins, reading);
        lanes |= 1u << lane;
    }
    for (const std::uint32_t instruction : instructions) program_.push_back({instruction, lanes});
    return false;
}

bool LaneStreams::merge_differing(const std::vector<Origin>& origins, Reading reading) {
    PassCutter cutter(origins);
    for (const Stream& stream : streams_) cutter.learn_loops(stream.instructions);
    std::array<std::vector<Pass>, 32> passes;
    for (int lane = 0; lane < 32; ++lane) passes[lane] = cutter.cut(streams_[lane].instructions);
    std::array<int, 32> order;
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater(), [&](int lane) { return passes[lane].size(); });

    std::vector<Pass> warp = passes[order[0]];
    std::array<std::vector<std::size_t>, 32> places;
    bool is_ambiguous = false;
    for (const int lane : order) {
        Places both = fit(passes[lane], warp);
        is_ambiguous = is_ambiguous || both.early != both.late;
        places[lane] = std::move(reading == Reading::first_turns ? both.early : both.late);
        for (std::size_t i = 0; i < passes[lane].size(); ++i) {
            Pass& joined = warp[places[lane][i]];
            if (joined != passes[lane][i]) joined = shortest_common_supersequence(joined, passes[lane][i]);
        }
    }

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
    return is_ambiguous;
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
