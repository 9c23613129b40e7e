#include "common/simt/counters/request_cost.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

namespace simt {
inline namespace cpu {
namespace {

constexpr std::uint64_t kSectorBytes = 32;
constexpr std::uint64_t kBankBytes = 4;
constexpr int kBanks = 32;
constexpr int kWidestAccess = 16;

/// Whether every lane that takes part has the same address as the lane whose number differs in `bit`.
bool paired(const LaneStreams::Request& request, int bit) {
    for (std::uint32_t lanes = request.lanes; lanes; lanes &= lanes - 1) {
        const int lane = std::countr_zero(lanes), other = lane ^ bit;
        if ((request.lanes >> other & 1) && request.address[lane] != request.address[other]) return false;
    }
    return true;
}

/// How often sectors are touched again, if lanes that want one element take turns: for each sector as often as its most
/// wanted element. `wanted` is sorted.
int turns_after_the_first(std::span<const std::uint64_t> wanted) {
    int turns = 0;
    for (std::size_t i = 0; i < wanted.size();) {
        const std::uint64_t sector = wanted[i] / kSectorBytes;
        int most = 0;
        while (i < wanted.size() && wanted[i] / kSectorBytes == sector) {
            const std::size_t first = i;
            while (i < wanted.size() && wanted[i] == wanted[first]) ++i;
            most = std::max(most, int(i - first));
        }
        turns += most - 1;
    }
    return turns;
}

}  // namespace

RequestCost sectors_of(const LaneStreams::Request& request, int bytes, Lanes lanes_meet) {
    std::array<std::uint64_t, 32> addresses{};
    int n = 0;
    for (std::uint32_t lanes = request.lanes; lanes; lanes &= lanes - 1)
        addresses[n++] = request.address[std::countr_zero(lanes)];
    std::sort(addresses.begin(), addresses.begin() + n);
    const bool one_for_all = lanes_meet == Lanes::combined && addresses[0] == addresses[std::size_t(n) - 1];
    const int again =
        lanes_meet == Lanes::together || one_for_all ? 0 : turns_after_the_first({addresses.data(), std::size_t(n)});
    // Aligned accesses of one size are the same or apart.
    const auto end = std::unique(addresses.begin(), addresses.begin() + n);

    std::uint64_t sectors = 0, next = 0;  // the first sector not yet counted
    for (auto address = addresses.begin(); address != end; ++address) {
        const std::uint64_t first = *address / kSectorBytes,
                            last = (*address + std::uint64_t(bytes) - 1) / kSectorBytes;
        if (last >= next) sectors += last + 1 - std::max(first, next);
        next = std::max(next, last + 1);
    }
    const std::uint64_t distinct_bytes = std::uint64_t(end - addresses.begin()) * std::uint64_t(bytes);
    return {.taken = int(sectors) + again, .ideal = int((distinct_bytes + kSectorBytes - 1) / kSectorBytes)};
}

RequestCost wavefronts_of(const LaneStreams::Request& request, int bytes) {
    // No instruction is wider than 16 bytes or of another width than a power of two: it takes several.
    if (const int width = std::min(kWidestAccess, int(std::bit_floor(unsigned(bytes)))); width < bytes) {
        LaneStreams::Request rest = request;
        for (std::uint64_t& address : rest.address) address += std::uint64_t(width);
        const RequestCost first = wavefronts_of(request, width), others = wavefronts_of(rest, bytes - width);
        return {.taken = first.taken + others.taken, .ideal = first.ideal + others.ideal};
    }
    const int words_per_lane = std::max(1, bytes / int(kBankBytes));
    int lanes_per_pass = std::max(1, kBanks / words_per_lane);
    if (words_per_lane > 1 && (paired(request, 1) || paired(request, 2))) lanes_per_pass *= 2;

    RequestCost cost;
    for (int first = 0; first < 32; first += lanes_per_pass) {
        std::array<std::uint64_t, 2 * kBanks> words;  // paired lanes ask for every word twice
        int n = 0;
        for (int lane = first; lane < first + lanes_per_pass; ++lane)
            if (request.lanes >> lane & 1)
                for (int w = 0; w < words_per_lane; ++w) words[n++] = request.address[lane] / kBankBytes + w;
        if (n == 0) continue;
        std::sort(words.begin(), words.begin() + n);
        const auto end = std::unique(words.begin(), words.begin() + n);
        std::array<int, kBanks> per_bank{};
        for (auto word = words.begin(); word != end; ++word) ++per_bank[*word % kBanks];
        cost.taken += *std::ranges::max_element(per_bank);
        ++cost.ideal;
    }
    return cost;
}

}  // namespace cpu
}  // namespace simt
