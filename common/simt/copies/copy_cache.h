#pragma once

namespace simt {

/// Which caches an asynchronous copy goes through.
enum class CopyCache {
    automatic,  ///< l2_only for 16 bytes, l1_and_l2 for less
    l1_and_l2,  ///< `.ca`: for data that this multiprocessor reads again; 4, 8 or 16 bytes
    l2_only,    ///< `.cg`: for data that it reads once; 16 bytes
};

/// A copy of one V through `wanted`. Fails to compile where the hardware has no such copy.
template <CopyCache wanted, class V>
struct AsyncCopyOf {
    static_assert(sizeof(V) == 4 || sizeof(V) == 8 || sizeof(V) == 16,
                  "an asynchronous copy moves 4, 8 or 16 bytes: take neighbours together with vec<Vector<T, N>>");
    static_assert(wanted != CopyCache::l2_only || sizeof(V) == 16, "only l1_and_l2 moves less than 16 bytes");
    /// Whether it goes through L1 as well as L2.
    static constexpr bool through_l1 = wanted == CopyCache::automatic ? sizeof(V) < 16 : wanted == CopyCache::l1_and_l2;
};

}  // namespace simt
