#include "common/simt/machine/spin_watch.h"

namespace simt {
inline namespace cpu {

void SpinWatch::start_block() {
    if (looks_.empty()) return;
    looks_.clear();
}

bool SpinWatch::finds(int thread, std::uintptr_t address, std::uint64_t bits, int threads) {
    if (looks_.empty()) looks_.resize(std::size_t(threads));
    Looks& looks = looks_[std::size_t(thread)];
    for (Look& look : looks.last) {
        if (look.address != address) continue;
        if (look.bits == bits) return ++look.times % kTimes == 0;
        look = {address, bits, 1};
        news_ = true;
        return false;
    }
    looks.last[looks.next++ % kPlaces] = {address, bits, 1};
    news_ = true;
    return false;
}

}  // namespace cpu
}  // namespace simt
