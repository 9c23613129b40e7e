#pragma once

#include <algorithm>
#include <type_traits>

#include "common/simt/sync/atomic_access.h"
#include "common/simt/sync/memory_order.h"

// See common/simt/sync/atomics_cuda.h. Each access is checked, and made alone; what it puts in order is known from then
// on, inside the block and between blocks.

namespace simt {
inline namespace cpu {

/// Of which elements there are atomics.
template <class T>
inline constexpr bool kHasAtomics = std::is_same_v<T, float> || std::is_same_v<T, int> || std::is_same_v<T, unsigned> ||
                                    std::is_same_v<T, unsigned long long>;

namespace atomics {

/// Changes an element to change(old), or leaves it where there is nothing to change; returns the old value.
template <class T, class Memory, class Change>
T access(const Ref<T, Memory>& element, const AtomicUse& use, Change change) {
    using Value = std::remove_const_t<T>;
    static_assert(kHasAtomics<Value>, "atomics take float, int, unsigned and unsigned long long");
    struct Call {
        Change& change;
        Value old;
    } call{change, Value{}};
    access_atomically(
        place_of(element.address(), sizeof(T), element.memory()), use,
        [](void* element, void* argument) {
            Call& call = *static_cast<Call*>(argument);
            Value& value = *static_cast<Value*>(element);
            call.old = value;
            return call.change(value);
        },
        &call);
    return call.old;
}

/// Of which integers one lane makes the update of all: those of 32 bits.
template <class T>
inline constexpr bool kCombines = std::is_integral_v<T> && sizeof(T) == 4;

template <Order order, bool combines = false>
constexpr AtomicUse kUpdate{
    .reads = true, .modifies = true, .acquires = acquires(order), .releases = releases(order), .combines = combines};

}  // namespace atomics

inline void fence(SourceSite site = SourceSite::here()) { fence_memory(FenceScope::device, site); }
inline void fence_block(SourceSite site = SourceSite::here()) { fence_memory(FenceScope::block, site); }
inline void fence_system(SourceSite site = SourceSite::here()) { fence_memory(FenceScope::system, site); }

template <Order order = Order::relaxed, class T, class Memory>
T atomic_add(const Ref<T, Memory>& element, std::type_identity_t<T> value) {
    return atomics::access(element, atomics::kUpdate<order, atomics::kCombines<T>>,
                           [value](T& x) { return x += value, true; });
}
template <class T, class Memory>
void reduce_add(const Ref<T, Memory>& element, std::type_identity_t<T> value) {
    atomic_add(element, value);
}
template <Order order = Order::relaxed, class T, class Memory>
T atomic_max(const Ref<T, Memory>& element, std::type_identity_t<T> value) {
    static_assert(std::is_integral_v<T>, "of integers");
    return atomics::access(element, atomics::kUpdate<order, atomics::kCombines<T>>,
                           [value](T& x) { return x = std::max(x, value), true; });
}
template <Order order = Order::relaxed, class T, class Memory>
T atomic_min(const Ref<T, Memory>& element, std::type_identity_t<T> value) {
    static_assert(std::is_integral_v<T>, "of integers");
    return atomics::access(element, atomics::kUpdate<order, atomics::kCombines<T>>,
                           [value](T& x) { return x = std::min(x, value), true; });
}
template <Order order = Order::relaxed, class T, class Memory>
T atomic_exchange(const Ref<T, Memory>& element, std::type_identity_t<T> value) {
    return atomics::access(element, atomics::kUpdate<order>, [value](T& x) { return x = value, true; });
}
template <Order order = Order::relaxed, class T, class Memory>
T atomic_compare_exchange(const Ref<T, Memory>& element, std::type_identity_t<T> expected,
                          std::type_identity_t<T> value) {
    static_assert(std::is_integral_v<T>, "of integers");
    return atomics::access(element, atomics::kUpdate<order>, [expected, value](T& x) {
        const bool equal = x == expected;
        if (equal) x = value;
        return equal;
    });
}

template <class T, class Memory>
std::remove_const_t<T> load_acquire(const Ref<T, Memory>& element) {
    return atomics::access(element, {.reads = true, .modifies = false, .acquires = true},
                           [](const auto&) { return false; });
}
template <class T, class Memory>
std::remove_const_t<T> load_relaxed(const Ref<T, Memory>& element) {
    return atomics::access(element, {.reads = true, .modifies = false}, [](const auto&) { return false; });
}
template <class T, class Memory>
void store_release(const Ref<T, Memory>& element, std::type_identity_t<T> value) {
    atomics::access(element, {.reads = false, .modifies = true, .releases = true},
                    [value](T& x) { return x = value, true; });
}
template <class T, class Memory>
void store_relaxed(const Ref<T, Memory>& element, std::type_identity_t<T> value) {
    atomics::access(element, {.reads = false, .modifies = true}, [value](T& x) { return x = value, true; });
}

}  // namespace cpu
}  // namespace simt
