#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "common/simt/machine/block.h"
#include "common/simt/sync/memory_order.h"

// See common/simt/sync/atomics_cuda.h. The processor's own atomics, all of them in one order, and nobody checks.

namespace simt {
inline namespace unchecked {

namespace atomics {

/// A read has found this: who waits for another value lets others go on.
template <class T>
T found(const T& element, T value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    Block::current().note_find({.address = &element}, bits);
    return value;
}

/// A write has changed this; the old value, if it is one.
template <class T>
T changed(const T& element, T old) {
    Block::current().note_change();
    return found(element, old);
}

}  // namespace atomics

inline void fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void fence_block() { fence(); }
inline void fence_system() { fence(); }

template <Order order = Order::relaxed, class T>
T atomic_add(T& element, std::type_identity_t<T> value) {
    return atomics::changed(element, std::atomic_ref<T>(element).fetch_add(value));
}
template <class T>
void reduce_add(T& element, std::type_identity_t<T> value) {
    std::atomic_ref<T>(element).fetch_add(value);
    Block::current().note_change();
}
template <class T, class Change>
T atomic_update(T& element, Change change) {
    const std::atomic_ref<T> atomic(element);
    T old = atomic.load();
    while (!atomic.compare_exchange_weak(old, change(old))) {
    }
    return atomics::changed(element, old);
}
template <Order order = Order::relaxed, class T>
T atomic_max(T& element, std::type_identity_t<T> value) {
    return atomic_update(element, [value](T old) { return std::max(old, value); });
}
template <Order order = Order::relaxed, class T>
T atomic_min(T& element, std::type_identity_t<T> value) {
    return atomic_update(element, [value](T old) { return std::min(old, value); });
}
template <Order order = Order::relaxed, class T>
T atomic_exchange(T& element, std::type_identity_t<T> value) {
    return atomics::changed(element, std::atomic_ref<T>(element).exchange(value));
}
template <Order order = Order::relaxed, class T>
T atomic_compare_exchange(T& element, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
    const bool exchanged = std::atomic_ref<T>(element).compare_exchange_strong(expected, value);
    return exchanged ? atomics::changed(element, expected) : atomics::found(element, expected);
}
template <class T>
T load_acquire(T& element) {
    return atomics::found(element, std::atomic_ref<T>(element).load());
}
template <class T>
T load_relaxed(T& element) {
    return atomics::found(element, std::atomic_ref<T>(element).load());
}
template <class T>
void store_release(T& element, std::type_identity_t<T> value) {
    std::atomic_ref<T>(element).store(value);
    Block::current().note_change();
}
template <class T>
void store_relaxed(T& element, std::type_identity_t<T> value) {
    store_release(element, value);
}

}  // namespace unchecked
}  // namespace simt
