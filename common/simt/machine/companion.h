#pragma once

#include <cstddef>

#include "common/simt/report/source_site.h"

namespace simt {
inline namespace cpu {

/// What instructions of one kind keep beside the block that a worker runs, such as the asynchronous copies that its
/// threads have under way. A block makes one when the first of its threads asks for it (Block::companion), and keeps it
/// for the blocks after it; so the machine need not know what kinds there are.
///
/// A kind has a `static std::unique_ptr<Companion> make(Block&)`. That, its constructor and its destructor stand in its
/// .cpp file, as what kernels do not inline of the machine's other parts does: in a header, every file with a kernel
/// would compile it for all its members, containers and all, which took it a second.
class Companion {
  public:
    virtual ~Companion() = default;

    /// A block of so many threads begins.
    virtual void start_block(int threads) = 0;

    /// The running thread returns from the kernel. Diagnoses what it should have waited for.
    virtual void thread_returns() = 0;

    /// The last of its threads has returned. Diagnoses what nobody will wait for any more.
    virtual void all_have_returned() {}

    /// No thread can go on. Whether something that was under way has come to pass now, so that one can.
    virtual bool let_something_happen() { return false; }

    /// `thread` reads or writes ("reads", "writes") shared memory on which something has yet to land. Diagnoses it if
    /// it is this companion's, and returns otherwise.
    virtual void thread_touches(const char* does, std::size_t offset, int thread, SourceSite site) const = 0;
};

}  // namespace cpu
}  // namespace simt
