#pragma once

#include "common/attention/arguments.h"
#include "common/attention/dispatch.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/watch.cuh"
#include "phase9_ring/merge_arguments.h"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// What the keys of one more rank add to a row: partial results merge, one into the other.
///
/// The row has O and LSE of the keys that it met so far, and O_p and LSE_p of those that have just come past. With
/// m = max(LSE, LSE_p), the whole is the weighted mean
///
///   s = exp(LSE - m) + exp(LSE_p - m)      O = (exp(LSE - m) O + exp(LSE_p - m) O_p) / s      LSE = m + log s
///
/// Changed since phase 5: there all parts lie side by side, and one kernel reads them together. Here they come one
/// after another, and a rank must not keep more than one, however many ranks there are. So the sum stays where it is
/// and each part is added to it: in float32, since it is rounded once for each rank. The first part is the first sum,
/// as it is, and the last sum is rounded to what the parts have.
///
///   grid    x = ceil(S / 8), y = H, z = B
///   block   8 warps of 32 threads: warp w owns row 8 x + w, lane k its columns k, k + 32, …
///   global  reads O_p, LSE_p, O and LSE once, writes O and LSE once
// clang-format on

inline constexpr int kMergeRows = 8;  ///< of a block

/// What the kernel is given: parts of T, a sum of Before, and room for one of After.
template <class T, class Before, class After>
struct MergeTensors {
    simt::GlobalTensor<const Before, 4> O_before;   ///< [B, H, S, D]
    simt::GlobalTensor<const float, 3> LSE_before;  ///< [B, H, S]
    simt::GlobalTensor<const T, 4> O_p;             ///< [B, H, S, D]
    simt::GlobalTensor<const float, 3> LSE_p;       ///< [B, H, S]
    simt::GlobalTensor<After, 4> O;                 ///< [B, H, S, D]: the memory of O_before, or other
    simt::GlobalTensor<float, 3> LSE;               ///< [B, H, S]: the memory of LSE_before
};

template <class T, class Before, class After, int D>
__global__ void __launch_bounds__(32 * kMergeRows) merge_kernel(MergeTensors<T, Before, After> t) {
    const int lane = threadIdx.x % 32, row = blockIdx.x * kMergeRows + threadIdx.x / 32;
    const int h = blockIdx.y, b = blockIdx.z;
    const auto O_before = t.O_before.slice(b, h);
    const auto LSE_before = t.LSE_before.slice(b, h);
    const auto O_p = t.O_p.slice(b, h);
    const auto LSE_p = t.LSE_p.slice(b, h);
    const auto O = t.O.slice(b, h);
    const auto LSE = t.LSE.slice(b, h);
    if (row >= int(O.extent(0))) return;

    const float before = LSE_before(row), part = LSE_p(row);
    // BEGIN SOLUTION weights: what each of the two counts for, and the sum of both
    const float m = fmaxf(before == before ? before : INFINITY,  // NaN ranks above all, so that nobody leaves it out
                          part == part ? part : INFINITY);
    const Share kept(before, m), added(part, m);
    const float s = kept.of(1.0f) + added.of(1.0f);
    //= const float m = part, s = 1.0f;
    //= const Share kept(-INFINITY, m), added(part, m);
    // END SOLUTION weights

    float O_row[D / 32];  // all loads before the first store: none waits for it
#pragma unroll
    for (int i = 0; i < D / 32; ++i) {
        const int c = lane + 32 * i;
        const bool exists = c < int(O.extent(1));
        // BEGIN SOLUTION weights: the weighted mean
        O_row[i] = exists ? (kept.of(float(O_before(row, c))) + added.of(float(O_p(row, c)))) / s : 0.0f;
        //= O_row[i] = exists ? float(O_p(row, c)) : 0.0f;
        // END SOLUTION weights
    }
#pragma unroll
    for (int i = 0; i < D / 32; ++i)
        if (const int c = lane + 32 * i; c < int(O.extent(1))) O(row, c) = After(O_row[i]);
    __syncwarp();  // every lane has read the row's LSE before lane 0 writes the new one
    // BEGIN SOLUTION weights: its LSE
    if (lane == 0) LSE(row) = m + logf(s);
    //= if (lane == 0) LSE(row) = part;
    // END SOLUTION weights
}

/// O and LSE once each way, O_p and LSE_p once; each lane of a warp reads LSE and LSE_p, in one access.
GlobalBytes merge_bytes(const MergeArguments& a) {
    const std::uint64_t rows = a.batch() * a.heads() * a.rows(), elements = rows * a.head_dim();
    const std::uint64_t of_O_read = element_bytes(a.out_before.type) + element_bytes(a.out_part.type);
    return {.read = elements * of_O_read + rows * 32 * 2 * sizeof(float),
            .written = elements * element_bytes(a.out.type) + rows * sizeof(float)};
}

/// Calls `use(std::type_identity<E>())` with float, or with T, which a sum has at first and in the end.
template <class T, class Use>
void with_sum_type(simt::ElementType type, Use&& use) {
    if (type == simt::ElementType::f32)
        use(std::type_identity<float>());
    else
        use(std::type_identity<T>());
}

/// Launches the kernel compiled for the dtypes of the part and of both sums, and the head dimension.
void launch_merge(const MergeArguments& a) {
    with_element_type(a.out_part.type, [&]<class T>(std::type_identity<T>) {
        with_sum_type<T>(a.out_before.type, [&]<class Before>(std::type_identity<Before>) {
            with_sum_type<T>(a.out.type, [&]<class After>(std::type_identity<After>) {
                with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
                    cudaLaunchConfig_t config{};
                    config.gridDim = dim3(ceil_div(a.rows(), kMergeRows), unsigned(a.heads()), unsigned(a.batch()));
                    config.blockDim = dim3(32 * kMergeRows);
                    config.stream = static_cast<cudaStream_t>(a.stream);
                    simt::launch(
                        "merge_kernel", config, merge_kernel<T, Before, After, D>,
                        MergeTensors<T, Before, After>{.O_before = simt::global_tensor<const Before, 4>(a.out_before),
                                                       .LSE_before = simt::global_tensor<const float, 3>(a.lse_before),
                                                       .O_p = simt::global_tensor<const T, 4>(a.out_part),
                                                       .LSE_p = simt::global_tensor<const float, 3>(a.lse_part),
                                                       .O = simt::global_tensor<After, 4>(a.out),
                                                       .LSE = simt::global_tensor<float, 3>(a.lse)});
                });
            });
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
