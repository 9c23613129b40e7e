#pragma once

namespace simt {

/// N neighbouring elements that one thread moves with one instruction. Aligned to their size, as the hardware demands.
template <class T, int N>
struct alignas(sizeof(T) * N) Vector {
    T element[N];  ///< in the order of their addresses
};

/// The widest vector a thread can move: 16 bytes.
template <class T>
inline constexpr int kVectorWidth = 16 / int(sizeof(T));

/// So many elements T, moved at once.
template <class T>
using WideVector = Vector<T, kVectorWidth<T>>;

}  // namespace simt
