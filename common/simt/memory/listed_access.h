#pragma once

#include <array>
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "common/simt/memory/knowledge.h"
#include "common/simt/report/source_site.h"

namespace simt {
inline namespace cpu {

/// What a thread does to an element of global memory.
enum class Deed : std::uint8_t { reads, writes, loads_atomically, modifies_atomically };

inline bool is_atomic(Deed deed) { return deed >= Deed::loads_atomically; }
inline bool changes(Deed deed) { return deed == Deed::writes || deed == Deed::modifies_atomically; }

/// Whether two of these may not meet: one of them changes the element, and they are not both atomic.
inline bool are_in_conflict(Deed one, Deed other) {
    return (changes(one) || changes(other)) && !(is_atomic(one) && is_atomic(other));
}

/// "reads", "writes atomically"
inline const char* words_for(Deed deed) {
    constexpr std::array kTexts{"reads", "writes", "reads atomically", "writes atomically"};
    return kTexts[std::size_t(deed)];
}

/// In place of an interval: of a bulk store that its thread has not waited for. Nothing comes after it.
inline constexpr std::uint32_t kUnderWay = UINT32_MAX;

/// Accesses of one kind to one element by lanes of a warp, in one of its intervals, who knew alike of other blocks.
struct ListedAccess {
    Deed deed;
    bool looks;     ///< finds out what stood there
    bool by_agent;  ///< a bulk copy makes it, through the asynchronous proxy
    std::uint16_t warp;
    std::uint32_t lanes, interval;
    KnowledgePtr knowledge;
    /// Of the atomic accesses to this element, in the order in which they took place in the launch: the number of the
    /// last one of these; or, if these are plain, of the last one that found what stood there, and came before.
    std::uint64_t number;
    int tensor;
    SourceSite site;

    /// Those lanes whose access does not lie before what is done with this knowledge.
    std::uint32_t lanes_unknown_to(const KnowledgePtr& other, std::uint64_t block) const;

    /// Those lanes whose access has not been shown to agents that are set off with this knowledge.
    std::uint32_t lanes_unshown_to(const KnowledgePtr& other, std::uint64_t block) const;
};

/// All that a block does to one element. Of a thread's accesses of one kind with the same knowledge the last is kept:
/// who comes after it comes after the others.
class AccessList {
  public:
    using allocator_type = std::pmr::polymorphic_allocator<>;
    explicit AccessList(const allocator_type& memory = {});
    ~AccessList();
    AccessList(const AccessList&) = delete;
    AccessList& operator=(const AccessList&) = delete;

    void add(const ListedAccess& access);

    /// The thread has waited for its bulk stores to the element: they are over, in this interval of its warp.
    void land(int thread, std::uint32_t interval);

    const std::pmr::vector<ListedAccess>& all() const { return list_; }

    bool has_atomics = false;  ///< of the block, to this element

  private:
    std::pmr::vector<ListedAccess> list_;
};

}  // namespace cpu
}  // namespace simt
