#include "common/simt/sync/register_pool.h"

#include <algorithm>

#include "common/simt/counters/event_recorder.h"

namespace simt {
inline namespace cpu {
namespace {

std::string registers(int count) { return std::to_string(count) + " registers"; }

}  // namespace

const Block::WarpgroupInstruction RegisterPool::kRelease{
    "setmaxnreg.dec", [](Block& block, int warpgroup, const std::array<const void*, kWarpgroup>& changes) {
        block.companion<RegisterPool>().change(warpgroup, *static_cast<const Change*>(changes[0]));
    }};
const Block::WarpgroupInstruction RegisterPool::kClaim{"setmaxnreg.inc", kRelease.run};

RegisterPool::RegisterPool(Block& block) : block_(block) {}
RegisterPool::~RegisterPool() = default;
std::unique_ptr<Companion> RegisterPool::make(Block& block) { return std::make_unique<RegisterPool>(block); }

void RegisterPool::start_block(int threads) {
    // The hardware gives each warp what it asks for in one go, so a warp that is not full takes as much as a full one.
    const int warps = (threads + 31) / 32, share = std::min(kRegisters / (warps * 32) / kStep * kStep, kMost);
    pool_ = share * warps * 32;
    warpgroups_.clear();
    for (int warp = 0; warp < warps; warp += 4)
        warpgroups_.push_back({.count = share, .threads = std::min(4, warps - warp) * 32, .changed_at = {}});
}

void RegisterPool::release(int count, SourceSite site) {
    const Change change{false, count, site};
    block_.warpgroup_instruction(kRelease, &change, site);
}

void RegisterPool::claim(int count, SourceSite site) {
    const Change change{true, count, site};
    block_.warpgroup_instruction(kClaim, &change, site);
    while (own().claimed) block_.sleep(*this, site);
}

void RegisterPool::change(int warpgroup, const Change& change) {
    Warpgroup& group = warpgroups_[std::size_t(warpgroup)];
    if (change.claims ? change.count < group.count : change.count > group.count) report_bad_change(warpgroup, change);
    if (EventRecorder* const events = block_.events())
        events->registers(change.claims, change.count, warpgroup, change.site);
    group.changed_at = change.site;
    (change.claims ? group.claimed : group.count) = change.count;
    grant();
}

int RegisterPool::free() const {
    int taken = 0;
    for (const Warpgroup& group : warpgroups_) taken += group.count * group.threads;
    return pool_ - taken;
}

/// Whoever waits and can have what he wants gets it.
void RegisterPool::grant() {
    bool anyone = false;
    for (Warpgroup& group : warpgroups_) {
        if (!group.claimed || (group.claimed - group.count) * group.threads > free()) continue;
        group.count = group.claimed;
        group.claimed = 0;
        anyone = true;
    }
    if (anyone) block_.wake(*this);
}

std::string RegisterPool::shares() const {
    std::string text;
    int sum = 0;
    for (std::size_t g = 0; g < warpgroups_.size(); ++g) {
        const int count = warpgroups_[g].claimed ? warpgroups_[g].claimed : warpgroups_[g].count;
        text += (g ? ", " : "") + std::to_string(count);
        sum += count * warpgroups_[g].threads;
    }
    return text + " registers per thread of the warpgroups make " + std::to_string(sum) + ", of " +
           std::to_string(pool_) + " that the block has";
}

std::string RegisterPool::awaited() const {
    std::string text;
    for (std::size_t g = 0; g < warpgroups_.size(); ++g)
        if (warpgroups_[g].claimed)
            text += (text.empty() ? "registers: warpgroup " : ", warpgroup ") + std::to_string(g) + " claims " +
                    std::to_string(warpgroups_[g].claimed) + " per thread and has " +
                    std::to_string(warpgroups_[g].count);
    return text + "; " + std::to_string(free()) + " are free: " + shares();
}

void RegisterPool::report_bad_change(int warpgroup, const Change& change) const {
    const int has = warpgroups_[std::size_t(warpgroup)].count;
    const std::string call =
        (change.claims ? "claim_registers<" : "release_registers<") + std::to_string(change.count) + ">()";
    const SourceSite before = warpgroups_[std::size_t(warpgroup)].changed_at;
    block_.fail(
        {.fault = Fault::bad_registers,
         .first = {warpgroup * kWarpgroup, change.site},
         .second = before.known() ? Witness{warpgroup * kWarpgroup, before} : Witness{},
         .what =
             call + " of warpgroup " + std::to_string(warpgroup) + ", whose threads have " + registers(has) + " each" +
             (before.known() ? "" : ", the equal share of a block of " + std::to_string(block_.threads()) + " threads"),
         .advice = change.claims ? "setmaxnreg.inc raises the number; release_registers() lowers it"
                                 : "setmaxnreg.dec lowers the number; claim_registers() raises it"});
}

}  // namespace cpu
}  // namespace simt
