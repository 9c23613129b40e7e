#pragma once

// The GPU as a kernel sees it. Views are bare pointers; names and source lines, which the CPU machine uses in its
// diagnoses, vanish here.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "common/simt/cuda/async_copy.h"
#include "common/simt/cuda/tensor_core.h"
#include "common/simt/device.h"
#include "common/simt/kernel_name.h"
#include "common/simt/launch_log.h"
#include "common/simt/tensor_argument.h"

namespace simt {
inline namespace cuda {

using f16 = __half;
using bf16 = __nv_bfloat16;

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

class SharedArena {
  public:
    template <class T, int Rows, int Columns, int Pitch = Columns>
    __device__ __forceinline__ SharedTile<T, Rows, Columns, Pitch> tile(const char*) {
        return SharedTile<T, Rows, Columns, Pitch>(static_cast<T*>(carve(SharedTile<T, Rows, Columns, Pitch>::bytes)));
    }
    template <class T>
    __device__ __forceinline__ SharedMatrix<T> matrix(const char*, int rows, int columns) {
        return SharedMatrix<T>(static_cast<T*>(carve(std::size_t(rows) * columns * sizeof(T))), rows, columns);
    }

  private:
    __device__ __forceinline__ void* carve(std::size_t bytes) {
        extern __shared__ __align__(128) unsigned char simt_shared_memory[];
        void* const start = simt_shared_memory + used_;
        used_ += unsigned((bytes + 15) / 16 * 16);
        return start;
    }
    unsigned used_ = 0;
};

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

inline Device current_device() { return cuda_device(); }
inline constexpr bool kCountsTraffic = false;
inline void name_next_launch(const char*) {}
inline Counters last_launch_counters() { return {}; }
inline KernelResources resources_of(const void* kernel, int threads_per_block, std::size_t dynamic_shared_bytes) {
    return cuda_kernel_resources(kernel, threads_per_block, dynamic_shared_bytes);
}

/// The kernel's name with its template arguments; empty before CUDA 12.3, which first tells.
inline std::string instance_of(const void* kernel) {
    const char* symbol = nullptr;
#if CUDART_VERSION >= 12030
    if (cudaFuncGetName(&symbol, kernel) != cudaSuccess) symbol = nullptr;
#endif
    return instance_from_symbol(symbol);
}

/// A refused launch leaves its code behind for cudaGetLastError(); the next launch must not trip over it.
inline void clear_last_error() { cudaGetLastError(); }

}  // namespace cuda
}  // namespace simt
