#include "common/simt/counters/block_recorder.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "common/simt/memory/tensor_names.h"

namespace simt {
inline namespace cpu {
namespace {

/// What the threads did between two barriers is worked up early where it grows beyond this: a beat is then cut in two.
constexpr std::size_t kMaxEvents = std::size_t{1} << 23;

/// Room for a matrix of watched values, over the values themselves.
constexpr std::int64_t kMaxSpread = 64;

template <class T>
int index_in(std::vector<T>& all, const T& wanted) {
    const auto place = std::size_t(std::ranges::find(all, wanted) - all.begin());
    if (place == all.size()) all.push_back(wanted);
    return int(place);
}

}  // namespace

std::size_t BlockRecorder::DeedHash::operator()(const Deed& d) const {
    const auto mix = [](std::size_t h, std::size_t more) { return (h ^ more) * 0x9e3779b97f4a7c15ull; };
    std::size_t h = std::hash<const void*>()(d.site.file());
    h = mix(h, d.site.line());
    h = mix(h, std::size_t(d.object) * 32 + std::size_t(d.agent) * 8 + std::size_t(d.kind) * 2 + d.write);
    return mix(h, std::hash<const void*>()(d.name));
}

void BlockRecorder::start_block(LaunchTrace& launch, const SharedMemory& shared, int threads) {
    launch_ = &launch;
    shared_ = &shared;
    threads_.assign(std::size_t(threads), {});
    events_ = 0;
    deeds_.clear();
    numbers_.clear();
    views_.clear();
    moments_.clear();
    faulty_thread_.reset();
    slices_.clear();
    parties_.start_block(launch, threads);
}

std::uint32_t BlockRecorder::number_of(const Deed& deed) {
    const auto [known, is_new] = numbers_.try_emplace(deed, std::uint32_t(deeds_.size()));
    if (is_new) deeds_.push_back(deed);
    return known->second;
}

int BlockRecorder::tensor_at(int tensor, const void* address) {
    const auto place = reinterpret_cast<std::uintptr_t>(address);
    for (const KnownView& known : views_)
        if (known.view.tensor == tensor && indices_of(known.view, place)) return known.object;
    const GlobalView view =
        global_view(tensor, place).value_or(GlobalView{.tensor = tensor, .base = place, .element_bytes = 1, .rank = 0});
    const int object =
        index_in(launch_->tensors, TracedTensor{.name = tensor_name(tensor),
                                                .element_bytes = view.element_bytes,
                                                .extents = {view.extents.begin(), view.extents.begin() + view.rank}});
    views_.push_back({view, object});
    return object;
}

int BlockRecorder::tile_at(std::size_t offset, int thread) {
    const SharedMemory::Region* const r = shared_->region_at(offset, thread);
    if (!r) return TracedAccess::kNowhere;
    return index_in(launch_->tiles, TracedTile{r->name, r->offset, r->rows, r->columns, r->pitch, r->element_bytes,
                                               r->panel_columns, r->swizzle_bits});
}

void BlockRecorder::append(int thread, const Event& event) {
    if (parties_.agent() != TracedAccess::Agent::threads) parties_.touched(access_of(event, deeds_[event.deed]));
    threads_[std::size_t(thread)].push_back(event);
    threads_[std::size_t(thread)].back().moment = parties_.now(thread);
    if (++events_ == kMaxEvents) close_interval(std::nullopt);
}

void BlockRecorder::warp_barrier(int warp) {
    const std::size_t end = std::min(threads_.size(), std::size_t(warp + 1) * 32);
    for (std::size_t thread = std::size_t(warp) * 32; thread < end; ++thread)
        threads_[thread].push_back({kWarpBarrier, 0, 0});
    parties_.warp_barrier(warp);
}

void BlockRecorder::close_interval(std::optional<SourceSite> barrier) {
    if (parties_.any()) {
        end_streams();
        if (barrier) slices_[parties_.latest()].barrier = barrier;
        return;
    }
    std::map<BeatNumber, Beat> beats;
    for (std::size_t thread = 0; thread < threads_.size(); ++thread) {
        cut_into_beats(threads_[thread], faulty_thread_ == int(thread), beats);
        threads_[thread].clear();
    }
    events_ = 0;
    const std::size_t moments_before = moments_.size();
    for (const auto& [number, beat] : beats) add_moments(beat);
    if (!barrier) return;
    if (moments_.size() == moments_before) moments_.emplace_back();
    moments_.back().barrier = barrier;
}

void BlockRecorder::cut_into_beats(const Stream& stream, bool faulty, std::map<BeatNumber, Beat>& beats) const {
    BeatNumber number{0, 0};
    std::size_t begin = 0;
    std::map<std::tuple<std::uint32_t, std::int64_t, std::int64_t>, std::size_t> shown_at;  // in this beat
    const auto is_watch = [&](const Event& e) { return e.deed != kWarpBarrier && deeds_[e.deed].kind == Kind::watch; };
    const auto end_beat = [&](std::size_t end) -> Beat& {
        Beat& beat = beats[number];
        add(beat, std::span(stream).subspan(begin, end - begin));
        begin = end;
        std::erase_if(shown_at, [&](const auto& shown) { return shown.second < end; });
        return beat;
    };
    for (std::size_t i = 0; i < stream.size(); ++i) {
        const Event& event = stream[i];
        if (event.deed == kWarpBarrier) {
            end_beat(i).warp_barrier = true;
            begin = i + 1;
            number = {number.first + 1, 0};
        } else if (is_watch(event)) {
            const auto [before, is_new] = shown_at.try_emplace({event.deed, event.a, event.b}, i);
            if (is_new) continue;
            std::size_t cut = before->second;
            while (cut < i && is_watch(stream[cut])) ++cut;  // to the first access that follows the old value
            end_beat(cut);
            ++number.second;
            shown_at[{event.deed, event.a, event.b}] = i;
        }
    }
    if (begin == stream.size() && !faulty) return;
    const bool did_something = begin < stream.size();
    Beat& last = end_beat(stream.size());
    last.faulty = last.faulty || faulty;
    if (faulty && did_something) last.faulty_deed = stream.back().deed;
}

void BlockRecorder::add(Beat& beat, std::span<const Event> events) const {
    // Where a thread comes to a deed that is new to the beat, it lies behind the one that this thread came to before.
    std::size_t place = 0;
    for (const Event& event : events) {
        const Deed& deed = deeds_[event.deed];
        const auto [known, is_new] = beat.done.try_emplace(event.deed);
        Done& done = known->second;
        if (is_new) {
            beat.order.insert(beat.order.begin() + std::ptrdiff_t(place), event.deed);
            ++place;
        } else {
            const auto at = std::ranges::find(beat.order, event.deed) - beat.order.begin();
            place = std::max(place, std::size_t(at) + 1);
        }
        if (deed.kind == Kind::watch)
            done.shown.push_back({event.a, event.b, event.value});
        else
            add_access(done.access, event, deed);
    }
}

void BlockRecorder::add_access(TracedAccess& access, const Event& event, const Deed& deed) const {
    if (access.bytes == 0)
        access = access_of(event, deed);
    else
        access.include(access_of(event, deed));
}

TracedAccess BlockRecorder::access_of(const Event& event, const Deed& deed) const {
    TracedAccess access{
        .memory = deed.kind == Kind::global ? TracedAccess::Memory::global : TracedAccess::Memory::shared,
        .object = deed.object,
        .write = deed.write,
        .site = deed.site,
        .bytes = std::uint64_t(event.b),
        .agent = deed.agent};
    if (deed.kind == Kind::global) {
        const auto place = std::uintptr_t(event.a);
        const auto known = std::ranges::find_if(views_, [&](const KnownView& v) {
            return v.object == deed.object && (v.view.rank == 0 || indices_of(v.view, place));
        });
        access.rank = known->view.rank;
        if (access.rank > 0) {
            access.first = access.last = *indices_of(known->view, place);
            access.last[std::size_t(access.rank - 1)] += event.b / std::int64_t(known->view.element_bytes) - 1;
        }
    } else if (deed.object != TracedAccess::kNowhere) {
        const TracedTile& tile = launch_->tiles[std::size_t(deed.object)];
        const auto [row, column] = SharedMemory::Region{.name = "",
                                                        .offset = tile.offset,
                                                        .rows = tile.rows,
                                                        .columns = tile.columns,
                                                        .pitch = tile.pitch,
                                                        .element_bytes = tile.element_bytes,
                                                        .panel_columns = tile.panel_columns,
                                                        .swizzle_bits = tile.swizzle_bits}
                                       .indices_of(std::size_t(event.a));
        access.rank = 2;
        access.first = access.last = {std::int64_t(row), std::int64_t(column)};
        // A bulk copy takes whole rows, one after the other.
        const std::int64_t elements = event.b / tile.element_bytes,
                           width = tile.panel_columns ? tile.panel_columns : tile.pitch;
        const std::int64_t more_rows = (std::int64_t(column) % width + elements - 1) / width;
        access.last[0] += more_rows;
        access.last[1] = more_rows ? std::int64_t(column) / width * width + width - 1 : access.last[1] + elements - 1;
        if (!tile.panel_columns && more_rows) access.last[1] = tile.columns - 1;
    }
    return access;
}

void BlockRecorder::add_moments(const Beat& beat) {
    TracedMoment moment;
    bool has_result = false, has_read_shared = false;
    const auto end_moment = [&] {
        moments_.push_back(std::exchange(moment, {}));
        has_result = has_read_shared = false;
    };
    for (const std::uint32_t number : beat.order) {
        const Deed& deed = deeds_[number];
        const Done& done = beat.done.at(number);
        const bool fetches = deed.is_read() && deed.kind == Kind::global;
        if ((deed.is_read() && has_result) || (fetches && has_read_shared)) end_moment();
        has_read_shared = has_read_shared || (deed.is_read() && !fetches);
        has_result = has_result || !deed.is_read();
        if (deed.kind == Kind::watch)
            moment.values.push_back(values_of(deed, done.shown));
        else
            moment.accesses.push_back(done.access);
        moment.fault = moment.fault || beat.faulty_deed == number;
    }
    if (beat.order.empty() && !beat.faulty) return;
    moment.warp_barrier = beat.warp_barrier;
    moment.fault = moment.fault || (beat.faulty && !beat.faulty_deed);
    end_moment();
}

TracedValues BlockRecorder::values_of(const Deed& deed, const std::vector<Cell>& shown) const {
    const auto [row_first, row_last] = std::ranges::minmax(shown, {}, &Cell::row);
    const auto [column_first, column_last] = std::ranges::minmax(shown, {}, &Cell::column);
    TracedValues values{.name = deed.name,
                        .first_row = row_first.row,
                        .first_column = column_first.column,
                        .rows = row_last.row - row_first.row + 1,
                        .columns = column_last.column - column_first.column + 1};
    // A wrong kernel may show a value for any row: what lies too far apart is not worth the room.
    if (values.rows * values.columns > kMaxSpread * std::int64_t(shown.size())) {
        values.rows = values.columns = 0;
        return values;
    }
    values.values.resize(std::size_t(values.rows * values.columns));
    for (const Cell& cell : shown)
        values.values[std::size_t((cell.row - values.first_row) * values.columns + cell.column - values.first_column)] =
            cell.value;
    return values;
}

void BlockRecorder::take(TracedBlock& block) {
    close_interval(std::nullopt);
    block.moments = std::exchange(moments_, {});
    if (parties_.any()) take_parties(block);
    if (faulty_thread_ && std::ranges::none_of(block.moments, &TracedMoment::fault)) {
        if (block.moments.empty()) block.moments.emplace_back();
        block.moments.back().fault = true;
    }
    launch_ = nullptr;
    shared_ = nullptr;
    threads_.clear();
}

}  // namespace cpu
}  // namespace simt
