#include "common/simt/machine/lookout.h"

namespace simt {
inline namespace cpu {

void Lookout::sees_at(int thread, Place place, int threads) {
    if (places_.empty()) places_.resize(std::size_t(threads));
    places_[std::size_t(thread)] = place;
}

bool Lookout::sees(const AccessListener::Access& access, int threads) {
    sees_at(access.thread, {access.write ? Place::Deed::writes : Place::Deed::reads, access.site}, threads);
    const bool is_first = events_ == 0;
    if (access.write || (!is_first && (access.thread != last_.thread || access.address != last_.address)))
        only_reads_one_element_ = false;
    last_ = access;
    return has_seen_enough();
}

}  // namespace cpu
}  // namespace simt
