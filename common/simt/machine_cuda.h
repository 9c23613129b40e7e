#pragma once

// The GPU as a kernel sees it.

#include "common/simt/copies/async_copy_cuda.h"
#include "common/simt/copies/cached_access_cuda.h"
#include "common/simt/language/fast_exp2_cuda.h"
#include "common/simt/language/float16_cuda.h"
#include "common/simt/launch/launch_cuda.h"
#include "common/simt/matrix/tensor_core_cuda.h"
#include "common/simt/sync/atomics_cuda.h"
#include "common/simt/sync/early_launch_cuda.h"
#include "common/simt/views/views_cuda.h"
