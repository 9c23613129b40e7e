#pragma once

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "common/simt/sync/memory_order.h"

// See common/simt/sync/atomics_cuda.h. The processor's own atomics, all of them in one order, and nobody checks.

namespace simt {
inline namespace unchecked {

inline void fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

template <Order order = Order::relaxed, class T>
T atomic_add(T& element, std::type_identity_t<T> value) {
    return std::atomic_ref<T>(element).fetch_add(value);
}
template <class T>
void reduce_add(T& element, std::type_identity_t<T> value) {
    std::atomic_ref<T>(element).fetch_add(value);
}
template <Order order = Order::relaxed, class T>
T atomic_max(T& element, std::type_identity_t<T> value) {
    const std::atomic_ref<T> atomic(element);
    T old = atomic.load();
    while (!atomic.compare_exchange_weak(old, std::max(old, value))) {
    }
    return old;
}
template <Order order = Order::relaxed, class T>
T atomic_exchange(T& element, std::type_identity_t<T> value) {
    return std::atomic_ref<T>(element).exchange(value);
}
template <Order order = Order::relaxed, class T>
T atomic_compare_exchange(T& element, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
    std::atomic_ref<T>(element).compare_exchange_strong(expected, value);
    return expected;
}
template <class T>
T load_acquire(T& element) {
    return std::atomic_ref<T>(element).load();
}
template <class T>
T load_relaxed(T& element) {
    return std::atomic_ref<T>(element).load();
}
template <class T>
void store_release(T& element, std::type_identity_t<T> value) {
    std::atomic_ref<T>(element).store(value);
}
template <class T>
void store_relaxed(T& element, std::type_identity_t<T> value) {
    std::atomic_ref<T>(element).store(value);
}

}  // namespace unchecked
}  // namespace simt
