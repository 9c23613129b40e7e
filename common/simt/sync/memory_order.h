#pragma once

namespace simt {

/// What an atomic access puts in order, beside the element itself, as in C++ and PTX.
enum class Order {
    relaxed,  ///< nothing
    acquire,  ///< what comes after it in the thread lies after what was released with the value that it finds
    release,  ///< what comes before it in the thread is released with the value that it leaves
    acq_rel,  ///< both
};

/// Among whom a fence orders, as in PTX.
enum class FenceScope {
    block,   ///< the threads of one block
    device,  ///< all threads of the GPU
    system,  ///< these, the host and other GPUs
};

/// Whether it is one of those that acquire.
constexpr bool acquires(Order order) { return order == Order::acquire || order == Order::acq_rel; }
/// Whether it is one of those that release.
constexpr bool releases(Order order) { return order == Order::release || order == Order::acq_rel; }

}  // namespace simt
