#include "common/simt/cpu/traffic.h"

#include <algorithm>
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
constexpr int kEvaluated = -1;  // in place of a request's number of lanes

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

std::size_t Traffic::LineHash::operator()(const LineKey& key) const {
    const std::size_t place = std::hash<std::uintptr_t>()(reinterpret_cast<std::uintptr_t>(key.site.file()));
    return place ^ (std::size_t(key.site.line()) * 0x9e3779b97f4a7c15ull) ^ (std::size_t(key.warp) << 32) ^
           std::size_t(key.kind);
}

void Traffic::start_block(bool trace, int threads) {
    trace_ = trace;
    threads_ = threads;
    lines_.clear();
}

void Traffic::join_request(int kind, std::uint64_t address, std::size_t bytes, int thread, SourceSite site) {
    const int warp = thread / 32, lane = thread % 32;
    Line& line = lines_[{warp, kind, site}];
    line.kind = kind;
    const std::uint32_t ordinal = line.accesses[lane]++;
    // A lane that skipped the line for a while joins the oldest request that is still open.
    const std::uint32_t slot = ordinal < line.first ? 0 : ordinal - line.first;
    if (ordinal < line.first) line.accesses[lane] = line.first + 1;
    if (slot >= line.requests.size()) line.requests.resize(slot + 1);
    Request& request = line.requests[slot];
    if (request.lanes == kEvaluated) return;
    request.bytes = int(bytes);
    request.address[request.lanes++] = address;
    if (request.lanes < std::min(32, threads_ - warp * 32)) return;

    evaluate(kind, request);
    request.lanes = kEvaluated;
    if (++line.evaluated == line.requests.size()) {
        line.first += std::uint32_t(line.requests.size());
        line.evaluated = 0;
        line.requests.clear();
    }
}

void Traffic::end_block() {
    for (auto& [key, line] : lines_)
        for (const Request& request : line.requests)
            if (request.lanes > 0) evaluate(line.kind, request);
    lines_.clear();
}

void Traffic::evaluate(int kind, const Request& request) {
    if (kind >= kGlobal) {
        std::array<std::uint64_t, 32 * 2> sectors;
        int n = 0;
        for (int i = 0; i < request.lanes; ++i) {
            sectors[n++] = request.address[i] / kSectorBytes;
            sectors[n++] = (request.address[i] + request.bytes - 1) / kSectorBytes;
        }
        std::sort(sectors.begin(), sectors.begin() + n);
        const auto distinct = std::unique(sectors.begin(), sectors.begin() + n) - sectors.begin();
        Tally& tally = tensors_[(kind - kGlobal) / 2];
        ((kind - kGlobal) % 2 ? tally.sectors_written : tally.sectors_read) += std::uint64_t(distinct);
        return;
    }

    // Shared memory serves 128 bytes a pass: 32 lanes of 4 bytes, 16 of 8, or 8 of 16. Within a pass each bank gives
    // one word; lanes that want the same word share it, lanes that want different words of one bank take turns.
    ++sum_.shared_requests;
    const int words_per_lane = std::max(1, request.bytes / int(kBankBytes));
    const int lanes_per_pass = std::max(1, 32 / words_per_lane);
    for (int first = 0; first < request.lanes; first += lanes_per_pass) {
        std::array<std::uint64_t, 32 * 4> words;
        int n = 0;
        for (int i = first; i < std::min(request.lanes, first + lanes_per_pass); ++i)
            for (int w = 0; w < words_per_lane && n < int(words.size()); ++w)
                words[n++] = request.address[i] / kBankBytes + w;
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
