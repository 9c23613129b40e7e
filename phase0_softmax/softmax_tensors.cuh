#pragma once

#include "common/simt/simt.h"
#include "phase0_softmax/softmax_arguments.h"

namespace ladder::SIMT_MACHINE {

/// What a softmax kernel is given.
template <class T>
struct SoftmaxTensors {
    simt::GlobalTensor<const T, 2> x;  ///< [rows, N]
    simt::GlobalTensor<T, 2> y;        ///< [rows, N]
};

/// The views of a problem whose elements are T.
template <class T>
SoftmaxTensors<T> softmax_tensors(const SoftmaxArguments& a) {
    return {.x = simt::global_tensor<const T, 2>(a.x), .y = simt::global_tensor<T, 2>(a.y)};
}

}  // namespace ladder::SIMT_MACHINE
