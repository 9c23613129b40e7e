#pragma once

// The GPU as a kernel sees it.

#include "common/simt/copies/async_copy_cuda.h"
#include "common/simt/copies/cached_access_cuda.h"
#include "common/simt/copies/tensor_map_cuda.h"
#include "common/simt/copies/tma_cuda.h"
#include "common/simt/language/fast_exp2_cuda.h"
#include "common/simt/language/float16_cuda.h"
#include "common/simt/language/float8_cuda.h"
#include "common/simt/launch/launch_cuda.h"
#include "common/simt/matrix/store_matrix_cuda.h"
#include "common/simt/matrix/tensor_core_cuda.h"
#include "common/simt/matrix/wgmma_cuda.h"
#include "common/simt/sync/atomics_cuda.h"
#include "common/simt/sync/cluster_cuda.h"
#include "common/simt/sync/early_launch_cuda.h"
#include "common/simt/sync/mbarrier_cuda.h"
#include "common/simt/sync/named_barrier_cuda.h"
#include "common/simt/sync/roles_cuda.h"
#include "common/simt/views/views_cuda.h"
