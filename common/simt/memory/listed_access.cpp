#include "common/simt/memory/listed_access.h"

#include <bit>

namespace simt {
inline namespace cpu {
namespace {

template <class Includes>
std::uint32_t lanes_beyond(const ListedAccess& access, const KnowledgePtr& other, Includes includes) {
    if (!other) return access.lanes;
    std::uint32_t beyond = 0;
    for (std::uint32_t l = access.lanes; l; l &= l - 1)
        if (const int lane = std::countr_zero(l); !includes(access.warp * 32 + lane)) beyond |= 1u << lane;
    return beyond;
}

}  // namespace

std::uint32_t ListedAccess::lanes_unknown_to(const KnowledgePtr& other, std::uint64_t block) const {
    return lanes_beyond(*this, other, [&](int thread) { return other->covers(block, thread, interval); });
}

std::uint32_t ListedAccess::lanes_unshown_to(const KnowledgePtr& other, std::uint64_t block) const {
    return lanes_beyond(*this, other, [&](int thread) { return other->has_shown(block, thread, interval); });
}

AccessList::AccessList(const allocator_type& memory) : list_(memory) {}
AccessList::~AccessList() = default;

void AccessList::add(const ListedAccess& access) {
    bool is_listed = false;
    for (ListedAccess& listed : list_) {
        if (listed.deed != access.deed || listed.looks != access.looks || listed.by_agent != access.by_agent ||
            listed.warp != access.warp || listed.knowledge != access.knowledge ||
            (!is_atomic(access.deed) && listed.number != access.number))
            continue;
        if (listed.interval == access.interval) {
            listed.lanes |= access.lanes;
            listed.number = access.number;
            is_listed = true;
        } else {
            listed.lanes &= ~access.lanes;
        }
    }
    std::erase_if(list_, [](const ListedAccess& listed) { return listed.lanes == 0; });
    if (!is_listed) list_.push_back(access);
}

void AccessList::land(int thread, std::uint32_t interval) {
    const std::uint32_t bit = 1u << unsigned(thread) % 32;
    std::vector<ListedAccess> landed;
    for (ListedAccess& listed : list_) {
        if (listed.interval != kUnderWay || listed.warp != thread / 32 || !(listed.lanes & bit)) continue;
        listed.lanes &= ~bit;
        landed.push_back(listed);
        landed.back().lanes = bit;
        landed.back().interval = interval;
    }
    std::erase_if(list_, [](const ListedAccess& listed) { return listed.lanes == 0; });
    for (const ListedAccess& access : landed) add(access);
}

}  // namespace cpu
}  // namespace simt
