#pragma once

#include <algorithm>
#include <string>

#include "tests/simt/testing.h"

namespace simt::testing {

/// What the machine counts for a launch.
template <class Kernel>
Counters count(const Shape& shape, Kernel kernel) {
    const LaunchLog log;
    run(shape, kernel);
    return log.total();
}

/// Of that, what concerns a tensor.
inline TensorTraffic traffic_of(const Counters& counters, const std::string& tensor) {
    const auto found = std::ranges::find(counters.tensors, tensor, &TensorTraffic::tensor);
    return found == counters.tensors.end() ? TensorTraffic{} : *found;
}

}  // namespace simt::testing
