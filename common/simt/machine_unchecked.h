#pragma once

// The CPU machine without its checks: the same threads, barriers, warp collectives and device limits, but memory as
// bare as the GPU's. It is what the checks are measured against, and what AddressSanitizer and ThreadSanitizer look at.

#include "common/simt/copies/async_copy_unchecked.h"
#include "common/simt/copies/cached_access_unchecked.h"
#include "common/simt/copies/tensor_map_cpu.h"
#include "common/simt/copies/tma_cpu.h"
#include "common/simt/language/arithmetic_cpu.h"
#include "common/simt/language/cuda_names.h"
#include "common/simt/language/fast_exp2_cpu.h"
#include "common/simt/language/float16.h"
#include "common/simt/language/float8.h"
#include "common/simt/language/fmaxf.h"
#include "common/simt/launch/launch_unchecked.h"
#include "common/simt/matrix/store_matrix_unchecked.h"
#include "common/simt/matrix/tensor_core_unchecked.h"
#include "common/simt/matrix/wgmma_unchecked.h"
#include "common/simt/sync/atomics_unchecked.h"
#include "common/simt/sync/cluster_unchecked.h"
#include "common/simt/sync/early_launch_unchecked.h"
#include "common/simt/sync/intrinsics_cpu.h"
#include "common/simt/sync/mbarrier_cpu.h"
#include "common/simt/sync/named_barrier_cpu.h"
#include "common/simt/sync/roles_cpu.h"
#include "common/simt/views/views_unchecked.h"
