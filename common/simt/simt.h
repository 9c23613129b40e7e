#pragma once

// The one header that a kernel includes. It picks the machine: nvcc gives the GPU, any other C++ compiler the CPU
// machine, checked unless SIMT_UNCHECKED is defined.
//
// SIMT_MACHINE     `namespace ladder::SIMT_MACHINE` keeps the builds of one kernel apart in one program. An unchecked
//                  kernel takes the place of the checked one, so it has its name, unless the build chooses another.
// SIMT_NAMESPACE   the same for what a machine defines in `namespace simt`.

#if defined(__CUDACC__)
#define SIMT_MACHINE cuda
#define SIMT_NAMESPACE cuda
#include "common/simt/machine_cuda.h"
#elif defined(SIMT_UNCHECKED)
#ifndef SIMT_MACHINE
#define SIMT_MACHINE cpu
#endif
#define SIMT_NAMESPACE unchecked
#include "common/simt/machine_unchecked.h"
#else
#define SIMT_MACHINE cpu
#define SIMT_NAMESPACE cpu
#include "common/simt/machine_cpu.h"
#endif

#include "common/simt/copies/tensor_map.h"
#include "common/simt/language/vector.h"
#include "common/simt/launch/launch.h"
#include "common/simt/matrix/fragment_conversion.h"
#include "common/simt/views/shared_layout.h"
#include "common/simt/views/tensor_argument.h"

#if !defined(__CUDACC__)
namespace ladder::SIMT_MACHINE {
using simt::for_kernels::fmaxf;
}
#endif

#if !defined(__CUDACC__) && !defined(SIMT_UNCHECKED)
#include "common/simt/machine/marked_branches.h"  // last: it is for kernels
#endif
