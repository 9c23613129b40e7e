#include "common/simt/cpu/request_cost.h"

#include <algorithm>
#include <array>
#include <bit>

namespace simt {
inline namespace cpu {
namespace {

constexpr std::uint64_t kSectorBytes = 32;
constexpr std::uint64_t kBankBytes = 4;
constexpr int kBanks = 32;
constexpr int kWidestAccess = 16;

/// The addresses of the lanes that take part, in ascending order.
struct Addresses {
    std::array<std::uint64_t, 32> sorted;
    int count = 0;

    explicit Addresses(const LaneStreams::Request& request) {
        for (std::uint32_t lanes = request.lanes; lanes; lanes &= lanes - 1)
            sorted[count++] = request.address[std::countr_zero(lanes)];
        if (!std::is_sorted(sorted.begin(), sorted.begin() + count)) std::sort(sorted.begin(), sorted.begin() + count);
    }
};

/// Whether every lane that takes part has the same address as the lane whose number differs in `bit`.
bool paired(const LaneStreams::Request& request, int bit) {
    for (std::uint32_t lanes = request.lanes; lanes; lanes &= lanes - 1) {
        const int lane = std::countr_zero(lanes), other = lane ^ bit;
        if ((request.lanes >> other & 1) && request.address[lane] != request.address[other]) return false;
    }
    return true;
}

}  // namespace

RequestCost sectors_of(const LaneStreams::Request& request, int bytes) {
    const Addresses addresses(request);
    std::uint64_t distinct_bytes = 0, sectors = 0, end = 0, next_sector = 0;
    for (int i = 0; i < addresses.count; ++i) {
        const std::uint64_t first = addresses.sorted[i], last = first + std::uint64_t(bytes) - 1;
        if (last >= end) distinct_bytes += last + 1 - std::max(first, end);
        end = std::max(end, last + 1);
        const std::uint64_t from = std::max(first / kSectorBytes, next_sector), to = last / kSectorBytes;
        if (to >= from) sectors += to - from + 1;
        next_sector = std::max(next_sector, to + 1);
    }
    return {.taken = int(sectors), .ideal = int((distinct_bytes + kSectorBytes - 1) / kSectorBytes)};
}

RequestCost wavefronts_of(const LaneStreams::Request& request, int bytes) {
    if (bytes > kWidestAccess) {  // no instruction is that wide: one after the other
        LaneStreams::Request rest = request;
        for (std::uint64_t& address : rest.address) address += kWidestAccess;
        const RequestCost first = wavefronts_of(request, kWidestAccess),
                          others = wavefronts_of(rest, bytes - kWidestAccess);
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
