// The forward kernels of forward.cuh, compiled for the head dimensions that their test takes.

#include <type_traits>

#include "common/attention/dispatch.cuh"
#include "tests/hopper_forward/forward.cuh"

namespace ladder::SIMT_MACHINE {

/// Calls use(std::type_identity<T>(), std::integral_constant<int, D>()) with the first D that holds the head dimension:
/// TMA brings zeros for the columns that a tensor lacks.
template <class Use>
void with_hopper_problem(const AttentionArguments& a, Use&& use) {
    with_element_type_of(MmaElements(), a.q.type, [&]<class T>(std::type_identity<T> type) {
        with_first_that_holds(std::integer_sequence<int, 64, 128, 256>(), a.head_dim(),
                              [&]<int D>(std::integral_constant<int, D> head_dim) { use(type, head_dim); });
    });
}

template <int D>
struct ShapeFor;
template <>
struct ShapeFor<64> : std::type_identity<HopperShape<64, 3, 128, 2, true, true>> {};
template <>
struct ShapeFor<128> : std::type_identity<HopperShape<128, 2, 128, 2, true, true>> {};
template <>
struct ShapeFor<256> : std::type_identity<HopperShape<256, 2, 80, 2, false, true, true, true, false>> {};

/// Step 1.
void launch_hopper_plain(const AttentionArguments& a) {
    with_hopper_problem(a, [&]<class T, int D>(std::type_identity<T>, std::integral_constant<int, D>) {
        launch_hopper_forward_plain<T, D, D == 256 ? 80 : 128>(a);
    });
}

/// Step 2: a producer, and consumers that take turns, with nothing under way meanwhile.
void launch_hopper_turns(const AttentionArguments& a) {
    with_hopper_problem(a, [&]<class T, int D>(std::type_identity<T>, std::integral_constant<int, D>) {
        using S = typename ShapeFor<D>::type;
        launch_hopper_forward<T, HopperShape<D, S::consumers, S::B_c, S::stages, S::takes_turns, false, true, true, S::persistent>>(a);
    });
}

/// Step 3.
void launch_hopper_overlapped(const AttentionArguments& a) {
    with_hopper_problem(a, [&]<class T, int D>(std::type_identity<T>, std::integral_constant<int, D>) {
        launch_hopper_forward<T, typename ShapeFor<D>::type>(a);
    });
}

}  // namespace ladder::SIMT_MACHINE
