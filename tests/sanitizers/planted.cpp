// Kernels with raw arrays and raw pointers, as people write them who know CUDA, some right and some wrong. The CPU
// machine cannot watch such memory; AddressSanitizer and ThreadSanitizer must. Each run of this program launches one
// kernel:
//
//   planted <kernel>
//
// sanitizers_test.py says what each must lead to.

#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/simt/simt.h"

namespace planted {

constexpr int kThreads = 64;

enum class Order { none, shuffle, syncwarp, syncthreads, vote };

template <Order order>
void keep() {
    if constexpr (order == Order::shuffle) __shfl_xor_sync(0xffffffffu, 1, 1);
    if constexpr (order == Order::syncwarp) __syncwarp();
    if constexpr (order == Order::syncthreads) __syncthreads();
    if constexpr (order == Order::vote) __syncthreads_or(1);
}

/// Each thread leaves a value in a raw array and takes the one `distance` threads away, again and again.
template <Order before, Order after>
__global__ void exchange(float* out, int distance) {
    __shared__ float values[kThreads];
    const int thread = int(threadIdx.x);
    float sum = 0.0f;
    for (int round = 0; round < 3; ++round) {
        values[thread] = float(thread + round);  // @write
        keep<before>();
        sum += values[(thread + distance) % kThreads];  // @read
        keep<after>();
    }
    out[thread] = sum;
}

template <class T>
__global__ void raw_array(T* out, int size) {
    __shared__ T values[kThreads];
    for (int i = int(threadIdx.x); i < size; i += kThreads) values[i] = T(1);  // @array
    __syncthreads();
    out[threadIdx.x] = values[threadIdx.x];
}

/// An index beyond a row still lies in the array.
__global__ void raw_matrix(float* out, int columns) {
    __shared__ float values[2][kThreads / 2];
    for (int i = int(threadIdx.x); i < columns; i += kThreads) values[0][i] = 1.0f;  // @matrix
    if (threadIdx.x >= kThreads / 2) values[1][threadIdx.x - kThreads / 2] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = values[threadIdx.x / 32][threadIdx.x % 32];
}

template <class T>
__device__ T in_a_helper(int size) {
    __shared__ T values[kThreads];
    for (int i = int(threadIdx.x); i < size; i += kThreads) values[i] = T(1);  // @helper
    __syncthreads();
    return values[threadIdx.x];
}

__global__ void helper_array(float* out, int size) { out[threadIdx.x] = in_a_helper<float>(size); }

template <class T>
__device__ void fill(T* values, int size) {
    for (int i = int(threadIdx.x); i < size; i += kThreads) values[i] = T(1);  // @pointer
}

template <class T>
__global__ void array_by_pointer(T* out, int size) {
    __shared__ T values[kThreads];
    fill(values, size);
    __syncthreads();
    out[threadIdx.x] = values[threadIdx.x];
}

__global__ void dynamic_array(float* out, int size) {
    float* const values = simt::dynamic_shared_memory<float>();
    for (int i = int(threadIdx.x); i < size; i += kThreads) values[i] = 1.0f;  // @dynamic
    __syncthreads();
    out[threadIdx.x] = values[threadIdx.x];
}

__global__ void global_array(float* out, int size) {
    for (int i = int(threadIdx.x); i < size; i += kThreads) out[i] = 1.0f;  // @global
}

__global__ void local_array(float* out, int last) {
    float values[8];
    float* const start = values;
    for (int i = 0; i <= last; ++i) start[i] = float(i);  // @local
    __syncthreads();
    for (int i = 0; i < 8; ++i) out[threadIdx.x] += values[i];
}

/// A tree of partial sums over both warps, in dynamic shared memory; in a few blocks, of several workers.
__global__ void reduction(const float* in, float* out) {
    float* const sums = simt::dynamic_shared_memory<float>();
    const unsigned thread = threadIdx.x;
    sums[thread] = in[blockIdx.x * kThreads + thread];
    for (unsigned half = kThreads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half) sums[thread] += sums[thread + half];
    }
    if (thread == 0) out[blockIdx.x] = sums[0];
}

/// The checks that stay: this one ends in a diagnosis, and leaves half-run threads behind.
__global__ void diverged_barrier(float* out) {
    std::array<float, 32> values{};
    values[threadIdx.x % 32] = 1.0f;
    if (threadIdx.x < 8) __syncthreads();
    out[threadIdx.x] = values[threadIdx.x % 32];
}

template <class... Parameters, class... Arguments>
void launch(int blocks, std::size_t shared_bytes, void (*kernel)(Parameters...), Arguments... arguments) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(unsigned(blocks));
    config.blockDim = dim3(kThreads);
    config.dynamicSmemBytes = shared_bytes;
    simt::launch("planted", config, kernel, arguments...);
}

template <Order before, Order after>
std::function<void()> exchanging(int distance) {
    return [distance] {
        std::vector<float> out(kThreads);
        launch(1, 0, exchange<before, after>, out.data(), distance);
    };
}

void reduce() {
    constexpr int blocks = 16;
    std::vector<float> in(blocks * kThreads, 0.5f), out(blocks);
    for (int repeat = 0; repeat < 3; ++repeat)
        launch(blocks, kThreads * sizeof(float), reduction, static_cast<const float*>(in.data()), out.data());
    for (const float sum : out)
        if (sum != 0.5f * kThreads) throw std::runtime_error("a sum is wrong");
}

void fail_and_go_on() {
    std::vector<float> out(kThreads);
    for (int repeat = 0; repeat < 3; ++repeat) {
        try {
            launch(1, 0, diverged_barrier, out.data());
        } catch (const simt::MachineError&) {
            reduce();
            continue;
        }
        throw std::runtime_error("the diverged barrier went unnoticed");
    }
}

std::function<void()> filling(void (*kernel)(float*, int), int size) {
    return [=] {
        std::vector<float> out(kThreads);
        launch(1, kThreads * sizeof(float), kernel, out.data(), size);
    };
}

const std::map<std::string, std::function<void()>> kernels = {
    {"barriers", exchanging<Order::syncthreads, Order::syncthreads>(40)},
    {"votes", exchanging<Order::vote, Order::vote>(40)},
    {"no_barrier_before_the_read", exchanging<Order::none, Order::syncthreads>(40)},
    {"no_barrier_after_the_read", exchanging<Order::syncthreads, Order::none>(40)},
    {"syncwarp_across_warps", exchanging<Order::syncwarp, Order::syncthreads>(40)},
    {"own_element", exchanging<Order::none, Order::none>(0)},
    {"shuffle_for_a_barrier", exchanging<Order::shuffle, Order::syncthreads>(1)},
    {"raw_array", filling(raw_array<float>, kThreads)},
    {"beyond_a_raw_array", filling(raw_array<float>, kThreads + 1)},
    {"raw_matrix", filling(raw_matrix, kThreads / 2)},
    {"beyond_a_row_of_a_raw_matrix", filling(raw_matrix, kThreads / 2 + 1)},
    {"helper_array", filling(helper_array, kThreads)},
    {"beyond_an_array_of_a_helper", filling(helper_array, kThreads + 1)},
    {"array_by_pointer", filling(array_by_pointer<float>, kThreads)},
    {"beyond_an_array_by_pointer", filling(array_by_pointer<float>, kThreads + 1)},
    {"dynamic_array", filling(dynamic_array, kThreads)},
    {"beyond_the_dynamic_array", filling(dynamic_array, kThreads + 1)},
    {"global_array", filling(global_array, kThreads)},
    {"beyond_a_global_array", filling(global_array, kThreads + 1)},
    {"local_array", filling(local_array, 7)},
    {"beyond_a_local_array", filling(local_array, 8)},
    {"reduction", reduce},
    {"failed_block", fail_and_go_on},
};

}  // namespace planted

int main(int argc, char** argv) {
    using planted::kernels;
    const auto kernel = argc == 2 ? kernels.find(argv[1]) : kernels.end();
    if (kernel == kernels.end()) {
        std::fprintf(stderr, "usage: planted KERNEL, one of:");
        for (const auto& [name, run] : kernels) std::fprintf(stderr, " %s", name.c_str());
        std::fprintf(stderr, "\n");
        return 2;
    }
    kernel->second();
    std::puts("done");
}
