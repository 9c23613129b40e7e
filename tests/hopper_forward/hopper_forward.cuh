// The forward kernels of forward.cuh, compiled for what their test takes.

#include <type_traits>
#include <utility>

#include "common/attention/dispatch.cuh"
#include "tests/hopper_forward/forward.cuh"

namespace ladder::SIMT_MACHINE {

/// Calls use(std::type_identity<T>(), std::integral_constant<int, D>()) with the first D that holds the head dimension:
/// TMA brings zeros for the columns that a tensor lacks.
template <class... T, class Use>
void with_hopper_problem(CompiledElements<T...> elements, const AttentionArguments& a, Use&& use) {
    with_element_type_of(elements, a.q.type, [&]<class E>(std::type_identity<E> type) {
        with_first_that_holds(std::integer_sequence<int, 64, 128, 256>(), a.head_dim(),
                              [&]<int D>(std::integral_constant<int, D> head_dim) { use(type, head_dim); });
    });
}

using SlowerStepElements = CompiledElements<simt::bf16>;

/// Step 1: one warpgroup, everything in order.
void launch_hopper_plain(const AttentionArguments& a) {
    with_hopper_problem(SlowerStepElements(), a,
                        [&]<class T, int D>(std::type_identity<T>, std::integral_constant<int, D>) {
                            launch_hopper_forward_plain<T, D, D == 256 ? 80 : 128>(a);
                        });
}

/// Step 2: a producer, and two consumers that take turns.
void launch_hopper_turns(const AttentionArguments& a) {
    with_hopper_problem(
        SlowerStepElements(), a, [&]<class T, int D>(std::type_identity<T>, std::integral_constant<int, D>) {
            launch_hopper_forward<T, HopperShape<D, 2, D == 256 ? 80 : 128, 2, true, false, false, true, false>>(a);
        });
}

/// Step 3: the softmax of a tile under the products of the one before; a block takes tile after tile where O_i finds
/// room beside Q_i.
void launch_hopper_overlapped(const AttentionArguments& a) {
    with_hopper_problem(
        SlowerStepElements(), a, [&]<class T, int D>(std::type_identity<T>, std::integral_constant<int, D>) {
            launch_hopper_forward<T, HopperShape<D, 2, D == 256 ? 80 : 128, 2, true, true, true, true, D != 256>>(a);
        });
}

/// The fastest for long sequences.
void launch_hopper_fastest(const AttentionArguments& a) {
    with_hopper_problem(MmaElements(), a, [&]<class T, int D>(std::type_identity<T>, std::integral_constant<int, D>) {
        launch_hopper_forward<T, typename HopperShapeFor<D>::Shape>(a);
    });
}

}  // namespace ladder::SIMT_MACHINE
