#ifndef LADDER_COMMON_TORCH_LEAN_ATEN_DEVICEGUARD_H
#define LADDER_COMMON_TORCH_LEAN_ATEN_DEVICEGUARD_H

// In the place of libtorch's header of this name, which the header of each tensor function includes. It asks for the
// device of a tensor in an ITensorListRef, and for that includes all of IValue, whose three thousand templates every
// file would instantiate, precompiled or not: a second for each of two hundred files. No function here needs that but
// cat(), in whose place concat() takes a TensorList. What else it includes is below.

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/ScalarType.h>

#endif
