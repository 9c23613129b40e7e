#include "common/simt/cpu/traffic.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

namespace simt {
inline namespace cpu {
namespace {

constexpr std::uint64_t kSectorBytes = 32;
constexpr std::uint64_t kBankBytes = 4;
constexpr int kBanks = 32;

std::mutex names_mutex;
std::vector<const char*> names;

}  // namespace

int tensor_id(const char* name) {
    const std::scoped_lock lock(names_mutex);
    const auto known =
        std::ranges::find(names, std::string_view(name), [](const char* n) { return std::string_view(n); });
    if (known != names.end()) return int(known - names.begin());
    if (names.size() == kMaxTensorNames)
        throw std::length_error("more than " + std::to_string(kMaxTensorNames) +
                                " tensor names in one program; give tensors of one role one name, such as \"K\"");
    names.push_back(name);
    return int(names.size()) - 1;
}

const char* tensor_name(int id) {
    const std::scoped_lock lock(names_mutex);
    return names.at(id);
}

std::size_t Traffic::InstructionHash::operator()(const Instruction& i) const {
    const std::size_t place = std::hash<std::uintptr_t>()(reinterpret_cast<std::uintptr_t>(i.site.file()));
    return place ^ (std::size_t(i.site.line()) * 0x9e3779b97f4a7c15ull) ^ (std::size_t(i.kind) << 32) ^
           (std::size_t(i.bytes) << 48);
}

void Traffic::start_block(bool trace, int threads) {
    trace_ = trace;
    if (!trace) return;
    warps_.resize(std::max(warps_.size(), std::size_t(threads + 31) / 32));
    for (LaneStreams& warp : warps_) warp.clear();
}

void Traffic::end_block() {
    if (!trace_) return;
    for (LaneStreams& warp : warps_) evaluate(warp);
}

void Traffic::record(const Instruction& instruction, std::uint64_t address, int thread) {
    const auto [known, is_new] = numbers_.try_emplace(instruction, std::uint32_t(instructions_.size()));
    if (is_new) {
        instructions_.push_back(instruction);
        sites_.push_back(instruction.site);
    }
    warps_[thread / 32].record(thread % 32, known->second, address);
}

void Traffic::evaluate(LaneStreams& warp) {
    warp.drain(sites_, [this](const LaneStreams::Request& request) {
        const Instruction& instruction = instructions_[request.instruction];
        if (instruction.kind >= kGlobal)
            count_sectors(request, instruction);
        else
            count_wavefronts(request, instruction.bytes);
    });
}

void Traffic::count_sectors(const LaneStreams::Request& request, const Instruction& instruction) {
    std::array<std::uint64_t, 32 * 2> sectors;
    int n = 0;
    for (std::uint32_t lanes = request.lanes; lanes; lanes &= lanes - 1) {
        const std::uint64_t address = request.address[std::countr_zero(lanes)];
        sectors[n++] = address / kSectorBytes;
        sectors[n++] = (address + instruction.bytes - 1) / kSectorBytes;
    }
    std::sort(sectors.begin(), sectors.begin() + n);
    const auto distinct = std::unique(sectors.begin(), sectors.begin() + n) - sectors.begin();
    Tally& tally = tensors_[(instruction.kind - kGlobal) / 2];
    ((instruction.kind - kGlobal) % 2 ? tally.sectors_written : tally.sectors_read) += std::uint64_t(distinct);
}

// Shared memory serves 128 bytes a pass: 32 lanes of 4 bytes, 16 of 8, or 8 of 16. Within a pass each bank gives one
// word; lanes that want the same word share it, lanes that want different words of one bank take turns.
void Traffic::count_wavefronts(const LaneStreams::Request& request, int bytes) {
    ++sum_.shared_requests;
    const int words_per_lane = std::max(1, bytes / int(kBankBytes));
    const int lanes_per_pass = std::max(1, 32 / words_per_lane);
    for (int first = 0; first < 32; first += lanes_per_pass) {
        std::array<std::uint64_t, 32 * 4> words;
        int n = 0;
        for (int lane = first; lane < first + lanes_per_pass; ++lane)
            for (int w = 0; w < words_per_lane && (request.lanes >> lane & 1) && n < int(words.size()); ++w)
                words[n++] = request.address[lane] / kBankBytes + w;
        if (n == 0) continue;
        std::sort(words.begin(), words.begin() + n);
        const auto end = std::unique(words.begin(), words.begin() + n);
        std::array<int, kBanks> per_bank{};
        for (auto word = words.begin(); word != end; ++word) ++per_bank[*word % kBanks];
        sum_.shared_wavefronts += std::uint64_t(*std::ranges::max_element(per_bank));
        ++sum_.shared_wavefronts_ideal;
    }
}

Counters Traffic::take() {
    Counters counters = sum_;
    for (int id = 0; id < kMaxTensorNames; ++id) {
        const Tally& t = tensors_[id];
        if (t.bytes_read || t.bytes_written)
            counters.tensors.push_back(
                {tensor_name(id), t.bytes_read, t.bytes_written, t.sectors_read, t.sectors_written});
    }
    sum_ = {};
    tensors_ = {};
    return counters;
}

}  // namespace cpu
}  // namespace simt
