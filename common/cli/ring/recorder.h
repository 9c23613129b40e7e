#pragma once

#include <string>
#include <vector>

namespace ladder::cli::ring {

/// Something that a rank did, from when to when. All ranks of one machine have the same clock.
struct Event {
    std::string what;           ///< "work", "merge" (a part of work), "wait", "send" or "receive"
    double begin = 0, end = 0;  ///< seconds, of which only differences mean anything
};

/// Collects, while it lives, what all threads of this process show through RECORD_USER_SCOPE under these names. One at
/// a time.
class Recorder {
  public:
    Recorder();
    ~Recorder();
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    /// What has ended so far, in the order in which it began.
    std::vector<Event> events() const;

  private:
    unsigned long long handle_;
};

}  // namespace ladder::cli::ring
