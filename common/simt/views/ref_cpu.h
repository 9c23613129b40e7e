#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "common/simt/machine/block.h"
#include "common/simt/memory/tensor_names.h"

// What the elements of the checked views are, and what is said of a view's wrong indices.

namespace simt {
inline namespace cpu {

/// What a view's element access gives: it knows whether the program reads or writes, and tells the machine. It lives
/// for one expression: `auto x = tile(r, c)` does not read, so nothing can be done with such an x. Write `float x = …`.
///
/// Elements that are no numbers come and go as bytes: a kernel's own type, whose functions could keep the address of
/// what they are called for, meets copies alone.
template <class T, class Memory>
class Ref {
    using Value = std::remove_const_t<T>;
    static_assert(std::is_trivially_copyable_v<Value>, "elements are read and written as bytes");

  public:
    /// Of `element`; `memory` knows whom to tell.
    Ref(T* element, Memory memory) : element_(element), memory_(memory) {}
    Ref(const Ref&) = default;

    /// Reads.
    [[gnu::always_inline]] operator Value() const&& { return read(); }

    /// Reads and converts: float(tile(r, c)).
    template <class U>
    requires(!std::is_same_v<U, Value> && std::is_constructible_v<U, Value>) explicit operator U() const&& {
        return static_cast<U>(read());
    }

    /// Writes; the last two read first.
    void operator=(Value value) const&& requires(!std::is_const_v<T>) { write(value); }
    void operator=(const Ref& other) const&& requires(!std::is_const_v<T>) {
        std::move(*this) = static_cast<Value>(Ref(other));
    }
    void operator+=(Value value) const&& requires(!std::is_const_v<T>) {
        Value sum = read();
        sum += value;
        write(sum);
    }
    void operator*=(Value value) const&& requires(!std::is_const_v<T>) {
        Value product = read();
        product *= value;
        write(product);
    }

    /// What the view names, for instructions that take an address, and make the access known to the machine themselves.
    T* address() const { return element_; }

    /// Likewise: where the element lives, and the source line that named it.
    const Memory& memory() const { return memory_; }

  private:
    [[gnu::always_inline]] Value read() const {
        memory_.note_read(element_, sizeof(T));
        if constexpr (std::is_arithmetic_v<Value>) return *memory_.place_of(element_);
        union Copy {
            Copy() {}  // Value's own constructor has no part in it
            Value value;
        } copy;
        std::memcpy(static_cast<void*>(&copy), memory_.place_of(element_), sizeof(T));
        return copy.value;
    }
    [[gnu::always_inline]] void write(const Value& value) const {
        memory_.note_write(element_, sizeof(T));
        T* place = memory_.place_of(element_);
        if constexpr (std::is_arithmetic_v<Value>)
            *place = value;
        else
            std::memcpy(static_cast<void*>(place), std::addressof(value), sizeof(T));
    }

    T* element_;
    Memory memory_;
};

template <class T>
inline constexpr bool kIsRef = false;  ///< whether a type is an element of a view
template <class T, class Memory>
inline constexpr bool kIsRef<Ref<T, Memory>> = true;  ///< it is

/// `printf("%g", tile(r, c))` would print the bytes of the Ref. Say float(tile(r, c)).
template <class... Arguments>
requires(kIsRef<Arguments> || ...) int printf(const char*, const Arguments&...) = delete;

struct SharedAccess {
    std::size_t element_bytes;
    SourceSite site;

    template <class T>
    T* place_of(T* element) const {
        return element;
    }

    [[gnu::always_inline]] void note_read(const void* p, std::size_t bytes) const {
        Block& block = Block::current();
        block.read_shared(SharedMemory::elements_of(block.shared.offset_of(p), bytes, element_bytes), site);
    }
    [[gnu::always_inline]] void note_write(const void* p, std::size_t bytes) const {
        Block& block = Block::current();
        block.write_shared(SharedMemory::elements_of(block.shared.offset_of(p), bytes, element_bytes), site);
    }
};

struct GlobalAccess {
    int tensor;
    SourceSite site;

    template <class T>
    T* place_of(T* element) const {
        return memory_behind(tensor, element);
    }

    void note_read(const void* p, std::size_t bytes) const { note(false, p, bytes); }
    void note_write(const void* p, std::size_t bytes) const { note(true, p, bytes); }
    void note(bool write, const void* p, std::size_t bytes) const {
        Block::current().access_global(write, tensor, p, bytes, site);
    }
};

/// Reports a view's bad index or address. While the machine is lenient, fail_index returns memory that stands for the
/// element. Nothing can stand for a slice.
[[gnu::cold, gnu::noinline]] void* fail_index(const char* view, int row, int column, int rows, int columns,
                                              int vector_width, SourceSite site);
[[noreturn, gnu::cold, gnu::noinline]] void fail_alignment(const char* view, int row, int column, std::size_t alignment,
                                                           SourceSite site);

/// A tensor in global memory, or a slice of one: the last `rank` dimensions of what the host passed.
struct SliceOfTensor {
    int tensor;
    const void* data;
    int rank;
    std::int64_t rows_before;  // that a view of it leaves out, and its indices do not count
};

/// The same for global memory.
[[gnu::cold, gnu::noinline]] void* fail_index(SliceOfTensor slice, std::span<const std::int64_t> indices, int dimension,
                                              std::int64_t extent, int vector_width, SourceSite site);
[[noreturn, gnu::cold, gnu::noinline]] void fail_slice(SliceOfTensor slice, std::span<const std::int64_t> indices,
                                                       int dimension, std::int64_t extent, SourceSite site);
[[noreturn, gnu::cold, gnu::noinline]] void fail_alignment(int tensor, const void* element, std::size_t alignment,
                                                           SourceSite site);

/// Rows of a panel tile that do not exist, or that begin between two patterns of its swizzle.
[[noreturn, gnu::cold, gnu::noinline]] void fail_rows(const char* tile, int row, int rows, int of_rows,
                                                      SourceSite site);

}  // namespace cpu
}  // namespace simt
