#include "common/simt/memory/global_memory.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "common/simt/memory/tensor_names.h"

namespace simt {
inline namespace cpu {
namespace {

constexpr std::size_t kRememberedViews = 256;  // far more than one launch takes

/// Where a view's index space begins and ends.
std::pair<std::uintptr_t, std::uintptr_t> range_of(const GlobalView& view) {
    std::int64_t first = 0, last = 0;
    for (int i = 0; i < view.rank; ++i) {
        if (view.extents[i] < 1) return {view.base, view.base};
        const std::int64_t reach = (view.extents[i] - 1) * view.strides[i];
        (reach < 0 ? first : last) += reach;
    }
    const auto bytes = std::int64_t(view.element_bytes);
    return {view.base + std::uintptr_t(first * bytes), view.base + std::uintptr_t((last + 1) * bytes)};
}

GlobalRegion region(std::uintptr_t begin, std::uintptr_t end, std::size_t cell_bytes, std::uint64_t number) {
    return {.begin = begin, .end = end, .cell_bytes = cell_bytes, .number = number, .written = nullptr};
}

/// All that the machine knows of global memory between launches.
class Registry {
  public:
    /// Handles keep it alive, so that a tensor may outlive the statics of this file.
    static const std::shared_ptr<Registry>& instance() {
        static const auto registry = std::make_shared<Registry>();
        return registry;
    }

    void expect_writes(std::uintptr_t begin, std::uintptr_t end, std::size_t element_bytes) {
        const std::scoped_lock lock(mutex_);
        forget_views_of(begin, end);
        GlobalRegion fresh = region(begin, end, element_bytes, ++numbers_);
        fresh.written = std::make_unique<std::atomic<bool>[]>(fresh.cells());
        insert(std::move(fresh));
    }

    void forget(std::uintptr_t begin) {
        const std::scoped_lock lock(mutex_);
        std::erase_if(regions_, [&](const auto& r) { return r->begin == begin && r->written; });
    }

    template <class Use>
    void with_written(std::uintptr_t begin, std::uintptr_t end, Use use) {
        const std::scoped_lock lock(mutex_);
        for (const auto& r : regions_)
            if (r->written && r->begin <= begin && end <= r->end) return use(*r);
    }

    void note(const GlobalView& view, bool writable, std::size_t alignment) {
        const std::scoped_lock lock(mutex_);
        views_.push_front(view);
        if (views_.size() > kRememberedViews) views_.pop_back();
        if (const auto [begin, end] = range_of(view); writable && begin < end) watch(begin, end, alignment);
    }

    GlobalRegions regions() const {
        const std::scoped_lock lock(mutex_);
        return regions_;
    }

    std::optional<GlobalView> view(int tensor, std::uintptr_t address) const {
        const std::scoped_lock lock(mutex_);
        for (const GlobalView& view : views_)
            if (view.tensor == tensor && indices_of(view, address)) return view;
        return std::nullopt;
    }

    std::optional<NearView> nearest(std::uintptr_t address) const {
        const std::scoped_lock lock(mutex_);
        std::optional<NearView> nearest;
        for (const GlobalView& view : views_) {
            const auto [begin, end] = range_of(view);
            if (begin >= end) continue;
            const bool below = address < begin;
            const std::uintptr_t distance = below ? begin - address : address < end ? 0 : address - end + 1;
            if (!nearest || distance < nearest->distance) nearest = {view, distance, below};
        }
        return nearest;
    }

  private:
    /// Sees to it that these bytes are watched, in cells no larger than `alignment`.
    void watch(std::uintptr_t begin, std::uintptr_t end, std::size_t alignment) {
        std::vector<std::pair<std::uintptr_t, std::uintptr_t>> gaps;  // between regions that a handle speaks for
        for (auto& r : regions_) {
            if (!r->written || r->end <= begin || end <= r->begin) continue;
            if (alignment < r->cell_bytes) r = refined(*r, alignment);
            gaps.emplace_back(begin, r->begin);
            begin = r->end;
        }
        gaps.emplace_back(begin, end);
        for (const auto& [from, to] : gaps)
            if (from < to) watch_gap(from, to, alignment);
    }

    /// Bytes that no handle speaks for are watched to the end of the program. Once the memory serves something else
    /// that costs time, and nothing worse, since all that is kept of them ends with each launch.
    void watch_gap(std::uintptr_t begin, std::uintptr_t end, std::size_t cell_bytes) {
        GlobalRegions overlapping;
        for (const auto& r : regions_)
            if (r->begin < end && begin < r->end) overlapping.push_back(r);
        if (overlapping.size() == 1 && overlapping[0]->begin <= begin && end <= overlapping[0]->end &&
            overlapping[0]->cell_bytes <= cell_bytes)
            return;
        for (const auto& r : overlapping) {
            begin = std::min(begin, r->begin);
            end = std::max(end, r->end);
            cell_bytes = std::min(cell_bytes, r->cell_bytes);
            std::erase(regions_, r);
        }
        insert(region(begin, end, cell_bytes, ++numbers_));
    }

    /// The memory is new: whatever views were made of these addresses before are gone.
    void forget_views_of(std::uintptr_t begin, std::uintptr_t end) {
        GlobalRegions cut;
        std::erase_if(regions_, [&](const auto& r) {
            if (r->end <= begin || end <= r->begin) return false;
            const std::uintptr_t after = (end + r->cell_bytes - 1) / r->cell_bytes * r->cell_bytes;
            if (r->begin < begin)
                cut.push_back(std::make_shared<const GlobalRegion>(region(r->begin, begin, r->cell_bytes, r->number)));
            if (after < r->end)
                cut.push_back(std::make_shared<const GlobalRegion>(region(after, r->end, r->cell_bytes, r->number)));
            return true;
        });
        for (auto& piece : cut) insert(std::move(piece));
    }

    std::shared_ptr<const GlobalRegion> refined(const GlobalRegion& coarse, std::size_t cell_bytes) {
        GlobalRegion fine = region(coarse.begin, coarse.end, cell_bytes, coarse.number);
        fine.written = std::make_unique<std::atomic<bool>[]>(fine.cells());
        for (std::size_t cell = 0; cell < fine.cells(); ++cell)
            fine.written[cell] = coarse.written[coarse.cell_of(fine.address_of(cell))].load();
        return std::make_shared<const GlobalRegion>(std::move(fine));
    }

    void insert(GlobalRegion r) { insert(std::make_shared<const GlobalRegion>(std::move(r))); }
    void insert(std::shared_ptr<const GlobalRegion> r) {
        const auto after =
            std::ranges::upper_bound(regions_, r->begin, {}, [](const auto& other) { return other->begin; });
        regions_.insert(after, std::move(r));
    }

    mutable std::mutex mutex_;
    GlobalRegions regions_;
    std::deque<GlobalView> views_;  // the newest first
    std::uint64_t numbers_ = 0;
};

class Expectation {
  public:
    Expectation(std::uintptr_t begin, std::uintptr_t end, std::size_t element_bytes) : begin_(begin) {
        registry_->expect_writes(begin, end, element_bytes);
    }
    ~Expectation() { registry_->forget(begin_); }
    Expectation(const Expectation&) = delete;
    Expectation& operator=(const Expectation&) = delete;

  private:
    std::shared_ptr<Registry> registry_ = Registry::instance();
    std::uintptr_t begin_;
};

std::uintptr_t address(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

}  // namespace

std::shared_ptr<void> expect_kernels_to_write(const void* data, std::size_t bytes, std::size_t element_bytes) {
    if (bytes == 0) return nullptr;
    return std::make_shared<Expectation>(address(data), address(data) + bytes, element_bytes);
}

void note_host_write(const void* data, std::size_t bytes) {
    const std::uintptr_t begin = address(data), end = begin + bytes;
    Registry::instance()->with_written(begin, end, [&](const GlobalRegion& r) {
        for (std::size_t cell = r.cell_of(begin); cell < r.cells() && r.address_of(cell) < end; ++cell)
            r.written[cell] = true;
    });
}

std::vector<bool> written_elements(const void* data, std::size_t bytes, std::size_t element_bytes) {
    const std::uintptr_t begin = address(data), end = begin + bytes;
    std::vector<bool> written;
    Registry::instance()->with_written(begin, end, [&](const GlobalRegion& r) {
        written.assign(bytes / element_bytes, true);
        for (std::size_t cell = r.cell_of(begin); cell < r.cells() && r.address_of(cell) < end; ++cell)
            if (!r.written[cell]) written[(r.address_of(cell) - begin) / element_bytes] = false;
    });
    return written;
}

void note_view(const GlobalView& view, bool writable, std::size_t alignment) {
    Registry::instance()->note(view, writable, alignment);
}

GlobalRegions global_regions() { return Registry::instance()->regions(); }

std::optional<GlobalView> global_view(int tensor, std::uintptr_t address) {
    return Registry::instance()->view(tensor, address);
}

std::optional<NearView> nearest_view(std::uintptr_t address) { return Registry::instance()->nearest(address); }

// Takes the largest strides first, which is right for every view whose elements do not overlap.
std::optional<std::array<std::int64_t, 4>> indices_of(const GlobalView& view, std::uintptr_t address) {
    const auto [begin, end] = range_of(view);
    if (address < begin || address >= end) return std::nullopt;
    std::array<int, 4> order{0, 1, 2, 3};
    std::ranges::sort(order, std::greater(), [&](int dimension) { return std::abs(view.strides[dimension]); });
    auto left = std::int64_t(address - begin) / std::int64_t(view.element_bytes);
    std::array<std::int64_t, 4> indices{};
    for (const int dimension : order) {
        const std::int64_t stride = std::abs(view.strides[dimension]), last = view.extents[dimension] - 1;
        const std::int64_t steps = stride ? std::min(left / stride, last) : 0;
        left -= steps * stride;
        indices[dimension] = view.strides[dimension] < 0 ? last - steps : steps;
    }
    if (left) return std::nullopt;  // between two rows
    return indices;
}

std::vector<std::int64_t> global_indices(int tensor, std::uintptr_t address) {
    const std::optional<GlobalView> view = global_view(tensor, address);
    if (!view) return {};
    const auto indices = *indices_of(*view, address);
    return {indices.begin(), indices.begin() + view->rank};
}

std::string global_element_name(int tensor, std::uintptr_t address) {
    const std::vector<std::int64_t> indices = global_indices(tensor, address);
    const std::string name = tensor_name(tensor);
    if (indices.empty()) return "an element of " + name;
    std::string text;
    for (const std::int64_t index : indices) text += (text.empty() ? "" : ", ") + std::to_string(index);
    return name + "(" + text + ")";
}

}  // namespace cpu
}  // namespace simt
