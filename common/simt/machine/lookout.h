#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/simt/counters/access_listener.h"
#include "common/simt/report/source_site.h"

namespace simt {
inline namespace cpu {

/// Watches what the threads of a block do once its budget is used up, for a moment: long enough to say where they are,
/// and what it looks like. Before that nothing is kept of an access, which would cost every kernel time.
class Lookout {
  public:
    /// What a thread was last seen to do.
    struct Place {
        enum class Deed : std::uint8_t { unseen, reads, writes, meets };
        Deed deed = Deed::unseen;
        SourceSite site;
    };

    /// A block begins.
    void start_block() {
        begun_ = false;
        places_.clear();
        events_ = 0;
        only_reads_one_element_ = true;
        meetings_ = 0;
    }

    /// From now on it is told of what the threads do. For signal handlers too.
    void begin() { begun_ = true; }
    bool has_begun() const { return begun_; }

    /// A thread touches an element; two of them meet. The result: whether enough has been seen.
    bool sees(const AccessListener::Access& access, int threads);
    bool sees_meeting() { return ++meetings_, has_seen_enough(); }
    /// One of those that meet.
    void sees_at(int thread, Place place, int threads);

    /// The next thing that is seen is the last.
    void hurry() { events_ = kEvents; }

    int events() const { return events_; }
    bool has_seen_meetings() const { return meetings_ > 0; }
    Place place(int thread) const { return places_.empty() ? Place{} : places_[std::size_t(thread)]; }

    /// Whether all that was seen is that one thread reads one element; and which.
    bool has_seen_one_read() const { return events_ > 1 && only_reads_one_element_ && meetings_ == 0; }
    const AccessListener::Access& last_access() const { return last_; }

  private:
    static constexpr int kEvents = 1 << 14;
    bool has_seen_enough() { return ++events_ >= kEvents; }

    std::atomic<bool> begun_ = false;
    std::vector<Place> places_;  // by thread
    int events_ = 0, meetings_ = 0;
    bool only_reads_one_element_ = true;
    AccessListener::Access last_{};
};

}  // namespace cpu
}  // namespace simt
