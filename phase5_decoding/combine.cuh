#pragma once

#include <utility>

#include "common/attention/arguments.h"
#include "common/attention/dispatch.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/watch.cuh"
#include "phase5_decoding/decode_arguments.h"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// The second kernel of flash decoding (Dao, Haziza, Massa, Sizov 2023): partial results become one.
///
/// Part p of row n is attention over some of the keys only: O_p, already divided by its own sum, and LSE_p, the
/// logarithm of that sum. With LSE = log sum_p exp(LSE_p), the whole is
///
///   O = sum_p exp(LSE_p - LSE) O_p
///
/// a weighted mean: the parts with large sums count most. Nothing here knows of keys, heads or masks.
///
///   grid    x = N
///   block   G groups of D threads, thread k of a group owns column k: G = 2 for up to 8 parts, else 8 (4 for D = 256).
///           The groups share out the parts; a thread has 2 of them under way at a time, or 4 where there are more than
///           16. Then the groups' results are merged, by the same rule
///   shared  O_g   [G, D]     4 G D    one line per group
///           m, s  [1, G]     8 G      the largest LSE_p that it met, and the sum of exp(LSE_p - m)
///   global  reads O_p once, and LSE_p by every thread of a group; writes O and LSE once
///
/// It may start while the kernel that computes the parts still runs (programmatic dependent launch): blocks that find a
/// place take it, and wait there. README.md has what that saves.
// clang-format on

inline constexpr int kFewParts = 8;  ///< which two groups merge

/// What the kernel is given: P parts of each of N rows.
template <class T>
struct CombineTensors {
    simt::GlobalTensor<const float, 3> O_p;    ///< [N, P, D], of a tensor [P, N, D]
    simt::GlobalTensor<const float, 2> LSE_p;  ///< [N, P], of a tensor [P, N]
    simt::GlobalTensor<T, 2> O;                ///< [N, D]
    simt::GlobalTensor<float, 1> LSE;          ///< [N]
};

template <class T, int D, int Groups, int AtOnce>
__global__ void __launch_bounds__(D* Groups) decode_combine_kernel(CombineTensors<T> t) {
    const int group = threadIdx.x / D, c = threadIdx.x % D;
    const std::int64_t n = blockIdx.x;
    const auto O_p = t.O_p.slice(n);
    const auto LSE_p = t.LSE_p.slice(n);
    const int parts = int(LSE_p.extent(0));
    const bool column_exists = c < int(O_p.extent(1));

    simt::wait_for_previous_kernel();  // the parts are complete before anyone reads them

    float m = -INFINITY, s = 0.0f, O_n = 0.0f;
    for (int first = group * AtOnce; first < parts; first += Groups * AtOnce) {
        float LSE[AtOnce], O[AtOnce];  // what does not exist counts as a part that saw nothing
#pragma unroll
        for (int i = 0; i < AtOnce; ++i) {
            const bool exists = first + i < parts;
            LSE[i] = exists ? float(LSE_p(first + i)) : -INFINITY;
            O[i] = exists && column_exists ? float(O_p(first + i, c)) : 0.0f;
        }

        // BEGIN SOLUTION merge: m, s and O_n, of the parts before and of these, under the new maximum
        float m_new = m;
#pragma unroll
        for (int i = 0; i < AtOnce; ++i)  // NaN ranks above all, so that nobody leaves it out
            m_new = fmaxf(m_new, LSE[i] == LSE[i] ? LSE[i] : INFINITY);
        watch_maximum(n, m_new, group);
        const Share before(m, m_new);
        s = before.of(s);
        O_n = before.of(O_n);
#pragma unroll
        for (int i = 0; i < AtOnce; ++i) {
            const Share share(LSE[i], m_new);
            s += share.of(1.0f);
            O_n += share.of(O[i]);
            if (first + i < parts) watch_rescale(n, share.weight, first + i);
        }
        m = m_new;
        //= s = 1.0f;
        // END SOLUTION merge
    }

    simt::SharedArena arena;
    const auto O_g = arena.tile<float, Groups, D>("O_g");
    const auto m_g = arena.tile<float, 1, Groups>("m");
    const auto s_g = arena.tile<float, 1, Groups>("s");
    O_g(group, c) = O_n;
    if (c == 0) {
        m_g(0, group) = m;
        s_g(0, group) = s;
    }
    __syncthreads();  // every group's line is there before the first group merges them
    if (group > 0) return;

    // BEGIN SOLUTION merge: what the groups have, under the maximum of all
    m = -INFINITY;
#pragma unroll
    for (int g = 0; g < Groups; ++g) m = fmaxf(m, m_g(0, g));
    s = O_n = 0.0f;  // added up in the order of the groups, so that the last bit is always the same
#pragma unroll
    for (int g = 0; g < Groups; ++g) {
        const Share share(m_g(0, g), m);
        s += share.of(s_g(0, g));
        O_n += share.of(O_g(g, c));
    }
    //= s = s_g(0, 0);
    // END SOLUTION merge

    // s is at least 1, the weight of the largest part, and at most P: the fast functions are exact enough for it.
    if (column_exists) t.O(n, c) = T(__fdividef(O_n, s));
    if (c == 0) t.LSE(n) = m + __logf(s);
}

/// The same tensor with its first two dimensions exchanged.
inline simt::TensorArgument by_row(simt::TensorArgument parts) {
    std::swap(parts.extents[0], parts.extents[1]);
    std::swap(parts.strides[0], parts.strides[1]);
    return parts;
}

/// How a block takes the parts of a row: in groups, and each of them so many at a time. What is written out for more
/// parts than there are only makes the kernel longer, and its instructions come from memory too.
/// Calls `use(integral_constant groups, integral_constant at_once)`.
template <int D, class Use>
void with_groups(std::int64_t parts, Use&& use) {
    constexpr std::integral_constant<int, 2> two;
    constexpr std::integral_constant<int, 4> four;
    constexpr std::integral_constant<int, D <= 128 ? 8 : 4> all;  // a block has 1024 threads at most
    if (parts <= kFewParts)
        use(two, two);
    else if (parts <= 2 * kFewParts)
        use(all, two);
    else
        use(all, four);
}

/// Every partial O once, every partial LSE by each thread of a group (a warp's threads in one access); O and LSE once.
GlobalBytes decode_combine_bytes(const CombineArguments& a) {
    const std::uint64_t parts = a.parts() * a.rows(), row = a.head_dim();
    const std::uint64_t element = simt::element_bytes(a.out.type);
    std::uint64_t threads = 0;
    with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) { threads = D; });
    return {.read = parts * (row + threads) * sizeof(float), .written = a.rows() * (row * element + sizeof(float))};
}

/// Launches the kernel compiled for the result's dtype, the head dimension and about so many parts.
void launch_decode_combine(const CombineArguments& a) {
    const auto launch = [&]<class T, int D, int Groups, int AtOnce>() {
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(unsigned(a.rows()));
        config.blockDim = dim3(D * Groups);
        config.dynamicSmemBytes = simt::shared_bytes<float>(Groups, D) + 2 * simt::shared_bytes<float>(1, Groups);
        config.stream = static_cast<cudaStream_t>(a.stream);
        cudaLaunchAttribute early{};
        early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        early.val.programmaticStreamSerializationAllowed = 1;
        config.attrs = &early;
        config.numAttrs = simt::current_device().has_feature(simt::Feature::early_launch) ? 1 : 0;
        simt::launch("decode_combine_kernel", config, decode_combine_kernel<T, D, Groups, AtOnce>,
                     CombineTensors<T>{.O_p = simt::global_tensor<const float, 3>(by_row(a.out_parts)),
                                       .LSE_p = simt::global_tensor<const float, 2>(by_row(a.lse_parts)),
                                       .O = simt::global_tensor<T, 2>(a.out),
                                       .LSE = simt::global_tensor<float, 1>(a.lse)});
    };
    with_element_type(a.out.type, [&]<class T>(std::type_identity<T>) {
        with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            with_groups<D>(a.parts(), [&]<int Groups, int AtOnce>(std::integral_constant<int, Groups>,
                                                                  std::integral_constant<int, AtOnce>) {
                launch.template operator()<T, D, Groups, AtOnce>();
            });
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
