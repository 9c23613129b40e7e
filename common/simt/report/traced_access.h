#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "common/simt/report/source_site.h"

namespace simt {

/// What the threads of a block did to one tensor or tile from one line of the source: the smallest box of indices that
/// holds all elements they touched, and the bytes they asked for. Of a vector of 16 bytes every element counts.
struct TracedAccess {
    /// Which of the two memories.
    enum class Memory : bool { global, shared };
    /// Who reads or writes: threads, or what they have set off.
    enum class Agent : std::uint8_t { threads, copies, products };
    static constexpr int kNowhere = -1;    ///< shared memory that no tile covers
    static constexpr int kEverybody = -1;  ///< the block is not told apart into parties

    Memory memory = Memory::global;  ///< where
    int object = kNowhere;           ///< index into LaunchTrace::tensors or tiles
    bool write = false;              ///< or a read
    SourceSite site = {};            ///< the line
    int rank = 0;                    ///< of the tensor; 2 for a tile
    /// The box's corners, both within it.
    std::array<std::int64_t, 4> first{}, last{};
    std::uint64_t bytes = 0;       ///< that the threads asked for
    Agent agent = Agent::threads;  ///< who did it
    int party = kEverybody;        ///< whose threads did it or set it off: index into TracedBlock::parties

    /// Whether both are of one line, one object, one agent and one party.
    bool same_deed(const TracedAccess& other) const {
        return memory == other.memory && object == other.object && write == other.write && site == other.site &&
               agent == other.agent && party == other.party;
    }
    /// Makes the box hold the other one too.
    void include(const TracedAccess& other) {
        for (std::size_t d = 0; d < std::size_t(rank); ++d) {
            first[d] = std::min(first[d], other.first[d]);
            last[d] = std::max(last[d], other.last[d]);
        }
        bytes += other.bytes;
    }
};

}  // namespace simt
