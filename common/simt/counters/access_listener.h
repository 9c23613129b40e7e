#pragma once

#include <cstddef>
#include <cstdint>

#include "common/simt/report/source_site.h"

namespace simt {
inline namespace cpu {

/// Who hears of accesses although nobody counts them.
class AccessListener {
  public:
    static constexpr int kShared = -1;

    /// One access of one thread.
    struct Access {
        bool write;
        int tensor;             ///< or kShared
        std::uint64_t address;  ///< in shared memory its offset
        int thread;
        SourceSite site;
    };

    /// Before it is made.
    virtual void hear(const Access& access) = 0;

  protected:
    ~AccessListener() = default;
};

}  // namespace cpu
}  // namespace simt
