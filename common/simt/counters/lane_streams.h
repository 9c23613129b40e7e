#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/simt/report/source_site.h"

namespace simt {
inline namespace cpu {

/// Puts a warp's memory instructions together again from what its lanes did one after the other.
///
/// A GPU runs the lanes in step: one instruction, up to 32 addresses. The machine runs each lane on its own up to the
/// next point where the warp meets. In between, each lane leaves a stream of accesses. Lanes that did the same leave
/// equal streams, and the n-th access of each belongs to the n-th instruction.
///
/// Where streams differ, because of a guard that some lanes fail, a loop that some leave sooner, or two sides of a
/// branch, the hardware lets lanes meet again after the guard, the loop or the branch. To see where that is, a stream
/// is cut into passes: a pass ends where the source lines go back, as they do at the end of a loop's body, and where
/// they leave or enter a loop. An `if` is in the stream too (see marked_branches.h), so that a turn in which a lane
/// did nothing is a pass as well. Lanes with equally many passes are in step from pass to pass; a lane with fewer joins
/// the passes that it shares most with. Where several would do, it may have left a loop sooner, or sat out turns
/// before, and nothing in its stream tells which: see Reading. Inside a pass an instruction that only some lanes have
/// is theirs alone.
class LaneStreams {
  public:
    /// Which turns of a loop a lane takes that has fewer of them than others.
    enum class Reading {
        first_turns,  ///< as in `for (i = lane; i < n; i += 32)`
        last_turns,   ///< as in `for (j = 0; j < n; ++j) if (j >= lane)`
    };

    /// Where an instruction stands in the source, and whether it is an `if`.
    struct Origin {
        SourceSite site;
        bool is_mark;
    };

    /// One instruction as a warp executes it: who takes part, and where each of them points.
    struct Request {
        std::uint32_t instruction;
        std::uint32_t lanes;  ///< a bit for each
        std::array<std::uint64_t, 32> address;
    };

    void record(int lane, std::uint32_t instruction, std::uint64_t address) {
        streams_[lane].instructions.push_back(instruction);
        streams_[lane].addresses.push_back(address);
        any_ = true;
    }

    /// Whether anything has been recorded since the last clear().
    bool any() const { return any_; }

    /// Puts together what has been recorded since the last clear(). Returns whether the other reading would do so
    /// differently.
    ///
    /// @param origins  of each instruction
    bool put_together(const std::vector<Origin>& origins, Reading reading);

    /// Calls `use(const Request&)` for every instruction that put_together() has found, in order.
    template <class Use>
    void for_each_request(Use use) const {
        std::array<std::size_t, 32> done{};
        for (const Step& step : program_) {
            Request request{.instruction = step.instruction, .lanes = step.lanes, .address = {}};
            for (int lane = 0; lane < 32; ++lane)
                if (step.lanes >> lane & 1) request.address[lane] = streams_[lane].addresses[done[lane]++];
            use(request);
        }
    }

    void clear();

  private:
    struct Stream {
        std::vector<std::uint32_t> instructions;
        std::vector<std::uint64_t> addresses;
    };
    /// An instruction of the warp, and the lanes that execute it.
    struct Step {
        std::uint32_t instruction, lanes;
    };

    const Stream& longest() const;
    bool merge_differing(const std::vector<Origin>& origins, Reading reading);

    std::array<Stream, 32> streams_;
    std::vector<Step> program_;
    bool any_ = false;
};

/// A shortest sequence that contains both `a` and `b`.
std::vector<std::uint32_t> shortest_common_supersequence(const std::vector<std::uint32_t>& a,
                                                         const std::vector<std::uint32_t>& b);

}  // namespace cpu
}  // namespace simt
