#pragma once

// The one header that a kernel includes. It picks the machine by the compiler that reads the file: nvcc gives the GPU,
// any other C++ compiler the checked CPU machine. `namespace ladder::SIMT_MACHINE` keeps the two builds of one kernel
// apart in one program.

#ifdef __CUDACC__
#define SIMT_MACHINE cuda
#include "common/simt/cuda/fast_exp2.h"
#include "common/simt/cuda/machine.h"
#else
#define SIMT_MACHINE cpu
#include "common/simt/cpu/fast_exp2.h"
#include "common/simt/cpu/machine.h"
#endif

#include "common/simt/fragment_conversion.h"
#include "common/simt/launch.h"
#include "common/simt/tensor_argument.h"
#include "common/simt/vector.h"
