#pragma once

// The CPU machine as a kernel sees it: the same names that nvcc gives, each checked.

#include "common/simt/copies/async_copy_cpu.h"
#include "common/simt/copies/cached_access_cpu.h"
#include "common/simt/language/arithmetic_cpu.h"
#include "common/simt/language/cuda_names.h"
#include "common/simt/language/fast_exp2_cpu.h"
#include "common/simt/language/float16.h"
#include "common/simt/language/fmaxf.h"
#include "common/simt/launch/launch_cpu.h"
#include "common/simt/matrix/tensor_core_cpu.h"
#include "common/simt/sync/atomics_cpu.h"
#include "common/simt/sync/early_launch_cpu.h"
#include "common/simt/sync/intrinsics_cpu.h"
#include "common/simt/views/views_cpu.h"
#include "common/simt/views/watch_cpu.h"
