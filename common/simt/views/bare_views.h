#pragma once

// The views of a machine that checks nothing: bare pointers with a shape. The GPU and the unchecked CPU machine share
// them. Names and source lines, which the checked machine uses in its diagnoses, vanish here.
//
// Included by views_cuda.h and views_unchecked.h, which give it arena_bytes().

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "common/simt/views/bare_panel_tile.h"
#include "common/simt/views/tensor_argument.h"

namespace simt {
inline namespace SIMT_NAMESPACE {

template <class T, int Rows, int Columns, int Pitch = Columns>
class SharedTile {
  public:
    using Element = T;
    __device__ static constexpr int rows() { return Rows; }
    __device__ static constexpr int columns() { return Columns; }
    static constexpr std::size_t bytes = std::size_t{Rows} * Pitch * sizeof(T);

    __device__ explicit SharedTile(T* base) : base_(base) {}
    __device__ __forceinline__ T& operator()(int row, int column) const { return base_[row * Pitch + column]; }
    template <class V>
    __device__ __forceinline__ V& vec(int row, int column) const {
        return *reinterpret_cast<V*>(base_ + row * Pitch + column);
    }

  private:
    T* base_;
};

template <class T>
class SharedMatrix {
  public:
    using Element = T;
    __device__ SharedMatrix(T* base, int rows, int columns) : base_(base), rows_(rows), columns_(columns) {}
    __device__ int rows() const { return rows_; }
    __device__ int columns() const { return columns_; }
    __device__ __forceinline__ T& operator()(int row, int column) const { return base_[row * columns_ + column]; }
    template <class V>
    __device__ __forceinline__ V& vec(int row, int column) const {
        return *reinterpret_cast<V*>(base_ + row * columns_ + column);
    }

  private:
    T* base_;
    int rows_, columns_;
};

template <int Count>
class SharedBarriers;  // sync/mbarrier_*.h

class SharedArena {
  public:
    template <class T, int Rows, int Columns, int Pitch = Columns>
    __device__ __forceinline__ SharedTile<T, Rows, Columns, Pitch> tile(const char*) {
        return SharedTile<T, Rows, Columns, Pitch>(static_cast<T*>(carve(SharedTile<T, Rows, Columns, Pitch>::bytes)));
    }
    template <class T, int Rows, int Columns, Swizzle S>
    __device__ __forceinline__ PanelTile<T, Rows, Columns, S> panels(const char*) {
        used_ = (used_ + unsigned(kPanelAlignment) - 1) / unsigned(kPanelAlignment) * unsigned(kPanelAlignment);
        return PanelTile<T, Rows, Columns, S>(static_cast<T*>(carve(PanelTile<T, Rows, Columns, S>::bytes)));
    }
    template <class T>
    __device__ __forceinline__ SharedMatrix<T> matrix(const char*, int rows, int columns) {
        return SharedMatrix<T>(static_cast<T*>(carve(std::size_t(rows) * columns * sizeof(T))), rows, columns);
    }
    template <int Count>
    __device__ __forceinline__ SharedBarriers<Count> barriers(const char*) {
        return SharedBarriers<Count>(carve(Count * sizeof(std::uint64_t)));
    }
    __device__ __forceinline__ void start_over() { used_ = 0; }

  private:
    __device__ __forceinline__ void* carve(std::size_t bytes) {
        void* const start = arena_bytes(used_, bytes);
        used_ += unsigned((bytes + 15) / 16 * 16);
        return start;
    }
    unsigned used_ = 0;
};

/// The launch's dynamic shared memory as a bare pointer: what CUDA also calls `extern __shared__ T name[]`.
template <class T>
__device__ __forceinline__ T* dynamic_shared_memory() {
    return static_cast<T*>(arena_bytes(0, 0));
}

template <class T, int Rank>
class GlobalTensor {
  public:
    GlobalTensor() = default;
    __host__ __device__ GlobalTensor(T* data, const std::int64_t* extents, const std::int64_t* strides) : data_(data) {
        for (int i = 0; i < Rank; ++i) {
            extents_[i] = extents[i];
            strides_[i] = strides[i];
        }
    }

    __device__ std::int64_t extent(int dimension) const { return extents_[dimension]; }

    template <class... Index>
    __device__ __forceinline__ T& operator()(Index... index) const {
        static_assert(sizeof...(Index) == Rank, "one index for each dimension");
        return data_[offset(std::make_index_sequence<Rank>(), index...)];
    }
    template <class V>
    __device__ __forceinline__ auto& vec(std::int64_t row, std::int64_t column) const {
        static_assert(Rank == 2, "vectors are read from the rows of a matrix");
        using Vector = std::conditional_t<std::is_const_v<T>, const V, V>;
        return *reinterpret_cast<Vector*>(data_ + row * strides_[0] + column);
    }
    __device__ __forceinline__ GlobalTensor<T, Rank - 1> slice(std::int64_t i) const {
        return {data_ + i * strides_[0], extents_ + 1, strides_ + 1};
    }
    __device__ __forceinline__ GlobalTensor<T, Rank - 2> slice(std::int64_t i, std::int64_t j) const {
        return {data_ + i * strides_[0] + j * strides_[1], extents_ + 2, strides_ + 2};
    }
    __device__ __forceinline__ GlobalTensor rows_from(std::int64_t first) const {
        static_assert(Rank == 2, "a matrix has rows");
        GlobalTensor rest = *this;
        rest.data_ += first * strides_[0];
        rest.extents_[0] -= first;
        return rest;
    }

  private:
    template <std::size_t... D, class... Index>
    __device__ __forceinline__ std::int64_t offset(std::index_sequence<D...>, Index... index) const {
        return ((std::int64_t(index) * strides_[D]) + ...);
    }

    T* data_ = nullptr;
    std::int64_t extents_[Rank] = {}, strides_[Rank] = {};
};

template <class T, int Rank>
GlobalTensor<T, Rank> global_tensor(const TensorArgument& argument) {
    return {static_cast<T*>(argument.data), argument.extents.data(), argument.strides.data()};
}

}  // namespace SIMT_NAMESPACE
}  // namespace simt
