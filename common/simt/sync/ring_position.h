#pragma once

// Included after the machine, which brings __device__.

namespace simt {
inline namespace SIMT_NAMESPACE {

/// Where a producer or a consumer is in a ring of so many stages: the stage, and the parity of the phase that its
/// barriers are in on this round. The consumer waits for full[stage] with `parity`; the producer for empty[stage] with
/// `parity ^ 1`, so that on its first round, when nobody has released anything, it waits for the phase before the
/// first, which counts as over.
template <int Stages>
struct RingPosition {
    int stage = 0;        ///< 0 … Stages - 1
    unsigned parity = 0;  ///< 0 on the first round, 1 on the second, 0 on the third, …

    /// On to the next stage; after the last the first, in the next phase.
    __device__ __forceinline__ void next() {
        if (++stage == Stages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

}  // namespace SIMT_NAMESPACE
}  // namespace simt
