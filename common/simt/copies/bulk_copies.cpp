#include "common/simt/copies/bulk_copies.h"

#include <cstring>
#include <utility>

#include "common/simt/counters/event_recorder.h"
#include "common/simt/memory/global_memory.h"
#include "common/simt/memory/tensor_names.h"
#include "common/simt/report/leniency.h"
#include "common/simt/sync/mbarriers.h"

namespace simt {
inline namespace cpu {
namespace {

constexpr int kBoxAlignment = 128, kPiece = 16;

std::string box_text(int rows, int columns) {
    return std::to_string(rows) + " x " + std::to_string(columns) + " elements";
}

}  // namespace

BulkCopies::BulkCopies(Block& block) : block_(block) {}
BulkCopies::~BulkCopies() = default;
std::unique_ptr<Companion> BulkCopies::make(Block& block) { return std::make_unique<BulkCopies>(block); }

void BulkCopies::start_block(int threads) { threads_.assign(std::size_t(threads), {}); }

void BulkCopies::fail(Fault fault, SourceSite site, std::string what, std::string advice) const {
    block_.fail({.fault = fault,
                 .first = {block_.thread(), site},
                 .what = "thread " + std::to_string(block_.thread()) + ": " + std::move(what),
                 .advice = std::move(advice)});
}

std::string BulkCopies::described(const char* call, int tensor, const char* way, std::uint32_t offset) const {
    return std::string(call) + " of " + tensor_name(tensor) + way + block_.shared.element_name(offset, block_.thread());
}

// --- What fits ------------------------------------------------------------------------------------------------------

void BulkCopies::check_made(const char* call, const TensorMapShape& map, SourceSite site) const {
    block_.require_feature(Feature::tma, site);
    if (map.rank > 0) return;
    fail(Fault::bad_descriptor, site, std::string(call) + " with a tensor map that was never made",
         "make the map on the host, by tensor_map() or tile_map(), and hand it to the kernel as a __grid_constant__ "
         "parameter");
}

void BulkCopies::check(const char* call, const Box& box) const {
    check_made(call, box.map, box.site);
    const BoxPlace& place = box.place;
    const std::string what = described(call, box.tensor, ", with the part of a tile at ", place.offset);
    if (box.map.swizzle != place.swizzle)
        fail(
            Fault::bad_descriptor, box.site,
            what + ": the tile has " + (place.swizzle == Swizzle::none ? "" : "a ") + name_of(place.swizzle) +
                ", the map " + (box.map.swizzle == Swizzle::none ? "" : "a ") + name_of(box.map.swizzle),
            "elements would lie elsewhere than where the tile looks for them: make the map with the tile's Swizzle, as "
            "tile_map() does");
    const int columns = place.row_bytes / box.map.element_bytes;
    if (box.map.rows() != place.rows || box.map.columns() != columns)
        fail(Fault::bad_descriptor, box.site,
             what + ": a box of the map has " + box_text(box.map.rows(), box.map.columns()) + ", " +
                 (place.swizzle == Swizzle::none ? "the tile " : "a panel of the tile ") +
                 box_text(place.rows, columns),
             "the map says how much one copy moves, not the tile: make it for this tile's rows and columns, as "
             "tile_map() does");
    const int column = box.at[std::size_t(box.map.rank - 1)];
    if (column * box.map.element_bytes % kPiece != 0)
        fail(Fault::misaligned, box.site,
             what + ", from column " + std::to_string(column) + " of the tensor on, which is no multiple of " +
                 std::to_string(kPiece / box.map.element_bytes) + ": rows of a box begin at multiples of 16 bytes",
             "no page says so, but an H200 stops with an illegal instruction. Begin at a multiple of 16 bytes, and "
             "leave out what is too much where the tile is used");
    if (place.offset % kBoxAlignment != 0)
        fail(
            Fault::misaligned, box.site,
            what + ", which begins " + std::to_string(place.offset % kBoxAlignment) + " bytes beyond a multiple of 128",
            "TMA copies to and from shared memory at multiples of 128 bytes: carve panel tiles, or carve the tile "
            "before others whose bytes are no multiple of 128");
}

/// What an H200 does at a tensor's edges, though PTX promises more: it stops with an illegal instruction where a store
/// begins before the tensor, and it leaves out what lies behind the end of a row in pieces of 16 bytes only.
void BulkCopies::check_edges(const char* call, const Box& box) const {
    const auto last = std::size_t(box.map.rank - 1);
    const std::string what = described(call, box.tensor, " from ", box.place.offset);
    for (std::size_t d = 0; d <= last; ++d)
        if (box.at[d] < 0)
            fail(
                Fault::out_of_bounds, box.site,
                what + " begins before the tensor: at " + std::to_string(box.at[d]) + " in dimension " +
                    std::to_string(d),
                "loads may begin before a tensor, and read zeros there; stores may only go beyond its end. Begin at 0, "
                "with a tile that has nothing before it");
    const std::int64_t end = box.map.extents[last], past = end * box.map.element_bytes % kPiece;
    if (past == 0 || box.at[last] >= end || box.at[last] + box.map.columns() <= end) return;
    fail(Fault::out_of_bounds, box.site,
         what + " goes beyond rows of " + std::to_string(end) + " elements, which end " + std::to_string(past) +
             " bytes after a multiple of 16: the next " + std::to_string((kPiece - past) / box.map.element_bytes) +
             " elements in memory are written too",
         "TMA leaves out whole pieces of 16 bytes. Let the rows of what is stored to be a multiple of 16 bytes, or let "
         "threads store the edge");
}

void BulkCopies::check(const char* call, const Bytes& bytes) const {
    block_.require_feature(Feature::tma, bytes.site);
    const std::string what = std::string(call) + " of " + std::to_string(bytes.bytes) + " bytes";
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.global);
    if (bytes.bytes <= 0 || bytes.bytes % kPiece != 0 || bytes.shared % kPiece != 0 || address % kPiece != 0)
        fail(Fault::misaligned, bytes.site,
             what + " between " + global_element_name(bytes.tensor, address) + ", " + std::to_string(address % kPiece) +
                 " bytes beyond a multiple of 16, and " + block_.shared.element_name(bytes.shared, block_.thread()) +
                 ", " + std::to_string(bytes.shared % kPiece) + " bytes beyond one",
             "bulk copies move a multiple of 16 bytes, from and to addresses that are multiples of 16");
    if (!is_checked()) return;
    const SharedMemory::Region* const tile = block_.shared.region_at(bytes.shared, block_.thread());
    const std::size_t end = tile ? tile->end() : block_.shared.bytes();
    if (bytes.shared + std::size_t(bytes.bytes) > end)
        fail(Fault::out_of_bounds, bytes.site,
             what + " at " + block_.shared.element_name(bytes.shared, block_.thread()) + " goes " +
                 std::to_string(bytes.shared + std::size_t(bytes.bytes) - end) + " bytes beyond the tile's end",
             "count bytes, not elements: rows * columns * sizeof(T) at most");
    const std::optional<GlobalView> view = global_view(bytes.tensor, address);
    if (!view || view->rank == 0) return;
    const auto last = std::size_t(view->rank - 1);
    const auto first_index = *indices_of(*view, address);
    const std::int64_t count = bytes.bytes / std::int64_t(view->element_bytes);
    const bool side_by_side = view->strides[last] == 1;
    if (side_by_side && first_index[last] + count <= view->extents[last]) return;
    if (const auto end_index = indices_of(*view, address + std::uintptr_t(bytes.bytes) - view->element_bytes)) {
        // Over the ends of rows, where the next row follows at once.
        std::int64_t passed = 0, size = 1;
        for (std::size_t d = last + 1; d-- > 0; size *= view->extents[d])
            passed += ((*end_index)[d] - first_index[d]) * size;
        if (side_by_side && passed == count - 1) return;
    }
    fail(Fault::out_of_bounds, bytes.site,
         what + " from " + global_element_name(bytes.tensor, address) + " on goes beyond the row of " +
             std::to_string(view->extents[last]) + " elements",
         "bulk copies know nothing of a tensor's ends, unlike copies by a tensor map: copy less at a ragged end, a "
         "multiple of 16 bytes, or pad the tensor");
}

/// What is read and written from here on, a copy does.
void BulkCopies::set_off() const {
    if (EventRecorder* const events = block_.events()) events->set_off(EventRecorder::Agent::copies);
}

// --- Loads ----------------------------------------------------------------------------------------------------------

void BulkCopies::read_global(int tensor, const void* from, std::size_t bytes, SourceSite site,
                             std::vector<GlobalShadow::HeldSource>* held) {
    if (!is_checked()) return;
    const int thread = block_.thread();
    block_.traffic.bulk_global(false, tensor, from, bytes, thread, site);
    block_.global.access_in_bulk(GlobalShadow::Bulk::read, tensor, from, bytes, thread, block_.warp_interval(), site);
    if (held) held->push_back(block_.global.hold_source(tensor, from, bytes, thread, site));
}

void BulkCopies::bring(Block& to, std::uint32_t barrier, const BoxPlace& place, std::vector<std::byte>&& data,
                       int element_bytes, std::string what, SourceSite site,
                       std::vector<GlobalShadow::HeldSource>&& held) {
    if (EventRecorder* const events = block_.events()) events->copy_lands(&to != &block_);
    if (is_checked()) block_.traffic.bulk_shared(true, place.offset, data.size(), block_.thread(), site);
    Mbarriers::Transfer transfer{.pieces = {{place.offset, std::uint32_t(data.size())}},
                                 .data = std::move(data),
                                 .element_bytes = std::size_t(element_bytes),
                                 .what = std::move(what),
                                 .site = site};
    if (!held.empty())
        transfer.landed = [&block = block_, held = std::move(held)](int agent, std::uint32_t interval) {
            for (const GlobalShadow::HeldSource source : held)
                block.global.release_source_of_agent(source, agent, interval);
        };
    to.companion<Mbarriers>().bring(barrier, std::move(transfer));
}

/// The box as it will lie in shared memory.
std::vector<std::byte> BulkCopies::read_box(const Box& box, std::vector<GlobalShadow::HeldSource>* held) {
    const BoxPlace& place = box.place;
    const int width = box.map.element_bytes;
    set_off();
    std::vector<std::byte> data(place.bytes());  // zeros
    for_each_row(box.map, box.at, [&](const BoxRow& row) {
        read_global(box.tensor, row.address, std::size_t(row.count * width), box.site, held);
        for_each_piece(row.first * width, row.count * width, [&](int byte, int bytes) {
            std::memcpy(data.data() + (place.offset_of(row.row, byte) - place.offset),
                        memory_behind(box.tensor, row.address) + (byte - row.first * width), std::size_t(bytes));
        });
    });
    return data;
}

void BulkCopies::load(const char* call, const Box& box, std::uint32_t barrier) {
    check(call, box);
    std::vector<GlobalShadow::HeldSource> held;
    std::vector<std::byte> data = read_box(box, &held);
    bring(block_, barrier, box.place, std::move(data), box.map.element_bytes,
          described(call, box.tensor, " to ", box.place.offset), box.site, std::move(held));
}

void BulkCopies::load_for_cluster(const char* call, const Box& box, std::uint32_t barrier, unsigned blocks) {
    block_.require_feature(Feature::cluster, box.site);
    check(call, box);
    const std::string what = described(call, box.tensor, " to ", box.place.offset);
    Cluster* const cluster = block_.cluster();
    const unsigned all = (1u << (cluster ? cluster->size() : 1)) - 1;
    if (blocks == 0 || blocks > all)
        fail(Fault::cluster_misuse, box.site,
             what + " for the blocks of mask " + std::to_string(blocks) + ", in a cluster of " +
                 std::to_string(cluster ? cluster->size() : 1),
             "bit r of the mask stands for the block of rank r: 1 to " + std::to_string(all) + " here");
    const bool takes_part = blocks >> block_.rank() & 1;
    std::vector<GlobalShadow::HeldSource> held;
    // The source is held until it has come to this block: nobody tells it of the others.
    const std::vector<std::byte> data = read_box(box, takes_part ? &held : nullptr);
    for (int rank = 0; blocks >> rank; ++rank) {
        if (!(blocks >> rank & 1)) continue;
        Block& to = rank == block_.rank() ? block_ : cluster->visit(rank, "sets off a " + what, box.site);
        auto of_this = &to == &block_ ? std::exchange(held, {}) : std::vector<GlobalShadow::HeldSource>{};
        bring(to, barrier, box.place, std::vector<std::byte>(data), box.map.element_bytes,
              what + (cluster ? " of " + to.home() : ""), box.site, std::move(of_this));
    }
}

void BulkCopies::load(const char* call, const Bytes& b, std::uint32_t barrier) {
    check(call, b);
    set_off();
    std::vector<GlobalShadow::HeldSource> held;
    read_global(b.tensor, b.global, std::size_t(b.bytes), b.site, &held);
    const auto* const from = static_cast<const std::byte*>(memory_behind(b.tensor, b.global));
    bring(block_, barrier, {.offset = b.shared, .rows = 1, .row_bytes = b.bytes}, {from, from + b.bytes},
          b.element_bytes, described(call, b.tensor, " to ", b.shared), b.site, std::move(held));
}

// --- Stores ---------------------------------------------------------------------------------------------------------

BulkCopies::Store& BulkCopies::begin_store(std::string what, SourceSite site) {
    set_off();
    Thread& thread = threads_[std::size_t(block_.thread())];
    Store store{.what = std::move(what), .site = site, .group = thread.groups};
    if (is_checked()) {
        if (thread.agent < 0)
            thread.agent = block_.add_agent("a bulk store of thread " + std::to_string(block_.thread()));
        store.interval = block_.open_agent_interval();
    } else {
        thread.under_way.clear();  // nobody asks for it again
    }
    return thread.under_way.emplace_back(std::move(store));
}

void BulkCopies::end_store(const Store& store) const {
    if (EventRecorder* const events = block_.events()) events->stored(store.group, block_.thread(), store.site);
}

void BulkCopies::read_shared(const Store& store, std::uint32_t offset, int bytes, int element_bytes) {
    if (!is_checked()) return;
    const int thread = block_.thread();
    block_.traffic.bulk_shared(false, offset, std::size_t(bytes), thread, store.site);
    block_.shared.read_by_agent(offset, std::size_t(bytes), std::size_t(element_bytes), thread,
                                threads_[std::size_t(thread)].agent, store.interval, store.site);
}

void BulkCopies::write_global(Store& store, int tensor, void* to, const void* values, int bytes, int element_bytes,
                              GlobalSums::Add add) {
    const auto size = std::size_t(bytes);
    if (is_checked()) {
        const int thread = block_.thread();
        block_.traffic.bulk_global(true, tensor, to, size, thread, store.site);
        block_.global.access_in_bulk(add ? GlobalShadow::Bulk::add : GlobalShadow::Bulk::write, tensor, to, size,
                                     thread, block_.warp_interval(), store.site);
        store.targets.push_back(block_.global.hold_target(tensor, to, size, thread, store.site));
    }
    if (add)
        block_.global.add(memory_behind(tensor, to), values, size / std::size_t(element_bytes), size, add);
    else
        std::memcpy(memory_behind(tensor, to), values, size);
}

void BulkCopies::store(const char* call, const Box& box, GlobalSums::Add add) {
    check(call, box);
    check_edges(call, box);
    const BoxPlace& place = box.place;
    const int width = box.map.element_bytes;
    Store& store = begin_store(described(call, box.tensor, " from ", place.offset), box.site);
    std::vector<std::byte> values(std::size_t(place.row_bytes));
    for_each_row(box.map, box.at, [&](const BoxRow& row) {
        const int bytes = row.count * width;
        for_each_piece(row.first * width, bytes, [&](int byte, int piece) {
            const std::uint32_t from = place.offset_of(row.row, byte);
            read_shared(store, from, piece, width);
            std::memcpy(values.data() + (byte - row.first * width), block_.shared.data() + from, std::size_t(piece));
        });
        write_global(store, box.tensor, row.address, values.data(), bytes, width, add);
    });
    end_store(store);
}

void BulkCopies::store(const char* call, const Bytes& b, GlobalSums::Add add) {
    check(call, b);
    Store& store = begin_store(described(call, b.tensor, " from ", b.shared), b.site);
    read_shared(store, b.shared, b.bytes, b.element_bytes);
    write_global(store, b.tensor, b.global, block_.shared.data() + b.shared, b.bytes, b.element_bytes, add);
    end_store(store);
}

void BulkCopies::commit(SourceSite site) {
    int& groups = threads_[std::size_t(block_.thread())].groups;
    if (EventRecorder* const events = block_.events()) events->committed_stores(groups, block_.thread(), site);
    ++groups;
}

void BulkCopies::wait(int allowed, bool until_read, SourceSite site) {
    if (!is_checked()) return;
    Thread& thread = threads_[std::size_t(block_.thread())];
    if (EventRecorder* const events = block_.events())
        events->waited_for_stores(thread.groups - allowed, until_read, block_.thread(), site);
    std::uint32_t read_up_to = 0;
    for (Store& store : thread.under_way) {
        if (store.group >= thread.groups - allowed) break;
        store.has_read = true;
        read_up_to = store.interval;
    }
    if (read_up_to > 0) block_.clocks().learn(block_.thread(), thread.agent, read_up_to);
    while (!until_read && !thread.under_way.empty() && thread.under_way.front().group < thread.groups - allowed) {
        for (const GlobalShadow::HeldSource target : thread.under_way.front().targets)
            block_.global.release_target(target, block_.warp_interval(), site);
        thread.under_way.pop_front();
    }
}

void BulkCopies::thread_returns() {
    const Thread& thread = threads_[std::size_t(block_.thread())];
    if (!is_checked() || thread.under_way.empty() || thread.under_way.back().has_read || ScopedLeniency::active())
        return;
    int left = 0;
    const Store* oldest = nullptr;
    for (const Store& store : thread.under_way) {
        if (store.has_read) continue;
        if (!oldest) oldest = &store;
        ++left;
    }
    const bool committed = oldest->group < thread.groups;
    block_.fail({.fault = Fault::copy_not_awaited,
                 .first = {block_.thread(), oldest->site},
                 .what = "thread " + std::to_string(block_.thread()) + " returns while " + std::to_string(left) +
                         " of its bulk stores may still read shared memory, the oldest a " + oldest->what +
                         (committed ? "" : ", which was never committed to a group"),
                 .advice = std::string(committed ? "" : "call commit_stores() after the stores, and then ") +
                           "wait_stores_read<0>() in the last step: when a block ends, its shared memory becomes "
                           "another block's"});
}

}  // namespace cpu
}  // namespace simt
