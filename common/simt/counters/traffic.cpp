#include "common/simt/counters/traffic.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <functional>
#include <utility>

#include "common/simt/counters/block_recorder.h"
#include "common/simt/counters/mark_listeners.h"

namespace simt {
inline namespace cpu {

int mark_listeners = 0;

std::size_t Traffic::InstructionHash::operator()(const Instruction& i) const {
    const std::size_t place = std::hash<std::uintptr_t>()(reinterpret_cast<std::uintptr_t>(i.site.file()));
    return place ^ (std::size_t(i.site.line()) * 0x9e3779b97f4a7c15ull) ^ (std::size_t(i.kind) << 32) ^
           (std::size_t(i.bytes) << 48);
}

void Traffic::start_block(std::optional<LaunchLog::Detail> count, int threads, BlockRecorder* recorder) {
    counts_ = count.has_value();
    is_heard_ = counts_;
    listener_ = nullptr;
    recorder_ = recorder;
    trace_ = count == LaunchLog::Detail::requests;
    marks_.reset();
    if (!trace_) return;
    marks_.emplace();
    warps_.resize(std::max(warps_.size(), std::size_t(threads + 31) / 32));
    for (LaneStreams& warp : warps_) warp.clear();
}

void Traffic::end_block() {
    if (!trace_) return;
    for (LaneStreams& warp : warps_) evaluate(warp);
    marks_.reset();
}

Traffic::Listening::Listening() { std::atomic_ref(mark_listeners).fetch_add(1, std::memory_order_relaxed); }
Traffic::Listening::~Listening() { std::atomic_ref(mark_listeners).fetch_sub(1, std::memory_order_relaxed); }

// Into each way to count, since every access comes by here.
[[gnu::always_inline]] inline void Traffic::record(const Instruction& instruction, std::uint64_t address, int thread) {
    Asked& last = asked_[unsigned(instruction.site.line() + 7 * instruction.kind) % asked_.size()];
    const std::uint32_t number = last.instruction == instruction ? last.number : number_anew(instruction, last);
    warps_[thread / 32].record(thread % 32, number, address);
}

void Traffic::count_mark(int thread, SourceSite site) { record({site, kMark, 0}, 0, thread); }

void Traffic::count(int shared_kind, std::size_t offset, std::size_t bytes, int thread, SourceSite site) {
    const bool write = shared_kind == kSharedWrite;
    if (AccessListener* const listener = listener_)
        listener->hear({write, AccessListener::kShared, offset, thread, site});
    if (!counts_) return;
    (write ? sum_.shared_bytes_written : sum_.shared_bytes_read) += bytes;
    if (trace_) record({site, shared_kind, int(bytes)}, offset, thread);
    if (recorder_) recorder_->shared(write, offset, bytes, thread, site);
}

void Traffic::count(bool write, int tensor, const void* address, std::size_t bytes, int thread, SourceSite site,
                    Lanes lanes) {
    if (AccessListener* const listener = listener_)
        listener->hear({write, tensor, reinterpret_cast<std::uintptr_t>(address), thread, site});
    if (!counts_) return;
    (write ? tensors_[tensor].bytes_written : tensors_[tensor].bytes_read) += bytes;
    if (trace_)
        record({site, kGlobal + 2 * tensor + write, int(bytes), lanes}, reinterpret_cast<std::uintptr_t>(address),
               thread);
    if (recorder_) recorder_->global(write, tensor, address, bytes, thread, site);
}

void Traffic::count_bulk(bool write, int tensor, const void* address, std::size_t bytes, int thread, SourceSite site) {
    constexpr std::uintptr_t sector = 32;
    const auto begin = reinterpret_cast<std::uintptr_t>(address), end = begin + bytes;
    if (AccessListener* const listener = listener_) listener->hear({write, tensor, begin, thread, site});
    if (!counts_) return;
    TensorTraffic& traffic = tensors_[std::size_t(tensor)];
    (write ? traffic.bytes_written : traffic.bytes_read) += bytes;
    if (trace_) {
        (write ? traffic.sectors_written : traffic.sectors_read) += (end - 1) / sector - begin / sector + 1;
        (write ? traffic.sectors_written_ideal : traffic.sectors_read_ideal) += (bytes + sector - 1) / sector;
    }
    if (recorder_) recorder_->global(write, tensor, address, bytes, thread, site);
}

void Traffic::count_bulk(bool write, std::size_t offset, std::size_t bytes, int thread, SourceSite site) {
    if (AccessListener* const listener = listener_)
        listener->hear({write, AccessListener::kShared, offset, thread, site});
    if (!counts_) return;
    (write ? sum_.shared_bytes_written : sum_.shared_bytes_read) += bytes;
    if (recorder_) recorder_->shared(write, offset, bytes, thread, site);
}

std::uint32_t Traffic::number_anew(const Instruction& instruction, Asked& last) {
    const auto [known, is_new] = numbers_.try_emplace(instruction, std::uint32_t(instructions_.size()));
    if (is_new) {
        instructions_.push_back(instruction);
        origins_.push_back({instruction.site, instruction.kind == kMark});
    }
    last = {instruction, known->second};
    return known->second;
}

void Traffic::evaluate(LaneStreams& warp) {
    if (!warp.any()) return;
    if (warp.put_together(origins_, LaneStreams::Reading::first_turns))
        count_in_doubt(warp);
    else
        warp.for_each_request([this](const LaneStreams::Request& request) {
            if (instructions_[request.instruction].kind != kMark) count_request(request);
        });
    warp.clear();
}

void Traffic::count_in_doubt(LaneStreams& warp) {
    struct Doubt {
        std::int64_t more = 0;                       // that the other reading takes
        std::uint64_t first = UINT64_MAX, last = 0;  // addresses of the last request
        bool overlaps = false;
    };
    std::vector<Doubt> doubts(instructions_.size());
    warp.for_each_request([&](const LaneStreams::Request& request) {
        if (instructions_[request.instruction].kind == kMark) return;
        Doubt& doubt = doubts[request.instruction];
        doubt.more -= count_request(request).taken;
        std::uint64_t first = UINT64_MAX, last = 0;
        for (std::uint32_t lanes = request.lanes; lanes; lanes &= lanes - 1) {
            const std::uint64_t address = request.address[std::countr_zero(lanes)];
            first = std::min(first, address);
            last = std::max(last, address);
        }
        doubt.overlaps = doubt.overlaps || (first <= doubt.last && last >= doubt.first);
        doubt.first = first;
        doubt.last = last;
    });
    warp.put_together(origins_, LaneStreams::Reading::last_turns);
    warp.for_each_request([&](const LaneStreams::Request& request) {
        if (instructions_[request.instruction].kind == kMark) return;
        doubts[request.instruction].more += cost_of(request, instructions_[request.instruction]).taken;
    });
    for (std::size_t i = 0; i < doubts.size(); ++i) {
        // Where each request is a run of its own, lanes share out elements, 32 at a time: there the last are missing.
        if (!doubts[i].overlaps) continue;
        const auto taken = std::uint64_t(std::abs(doubts[i].more));
        const int kind = instructions_[i].kind;
        if (kind < kGlobal) {
            sum_.shared_wavefronts_in_doubt += taken;
            continue;
        }
        TensorTraffic& tensor = tensors_[(kind - kGlobal) / 2];
        ((kind - kGlobal) % 2 ? tensor.sectors_written_in_doubt : tensor.sectors_read_in_doubt) += taken;
    }
}

RequestCost Traffic::cost_of(const LaneStreams::Request& request, const Instruction& instruction) {
    return instruction.kind >= kGlobal ? sectors_of(request, instruction.bytes, instruction.lanes)
                                       : wavefronts_of(request, instruction.bytes);
}

RequestCost Traffic::count_request(const LaneStreams::Request& request) {
    const Instruction& instruction = instructions_[request.instruction];
    const RequestCost cost = cost_of(request, instruction);
    if (instruction.kind >= kGlobal)
        count_global(cost, instruction);
    else
        count_shared(cost, instruction);
    return cost;
}

void Traffic::count_global(const RequestCost& sectors, const Instruction& instruction) {
    TensorTraffic& tensor = tensors_[(instruction.kind - kGlobal) / 2];
    const bool write = (instruction.kind - kGlobal) % 2;
    ++(write ? tensor.requests_written : tensor.requests_read);
    (write ? tensor.sectors_written : tensor.sectors_read) += std::uint64_t(sectors.taken);
    (write ? tensor.sectors_written_ideal : tensor.sectors_read_ideal) += std::uint64_t(sectors.ideal);
}

void Traffic::count_shared(const RequestCost& wavefronts, const Instruction& instruction) {
    ++sum_.shared_requests;
    sum_.shared_wavefronts += std::uint64_t(wavefronts.taken);
    sum_.shared_wavefronts_ideal += std::uint64_t(wavefronts.ideal);
    if (instruction.kind == kSharedWrite) return;
    ++sum_.shared_read_requests;
    sum_.shared_read_wavefronts += std::uint64_t(wavefronts.taken);
    if (instruction.kind != kProductRead) return;
    ++sum_.product_read_requests;
    sum_.product_read_wavefronts += std::uint64_t(wavefronts.taken);
}

Counters Traffic::take() {
    Counters counters = sum_;
    for (int id = 0; id < kMaxTensorNames; ++id) {
        TensorTraffic& t = tensors_[id];
        if (!t.bytes_read && !t.bytes_written) continue;
        t.tensor = tensor_name(id);
        counters.tensors.push_back(std::move(t));
    }
    sum_ = {};
    tensors_ = {};
    return counters;
}

}  // namespace cpu
}  // namespace simt
