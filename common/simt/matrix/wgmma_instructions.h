#pragma once

#include "common/simt/matrix/product_call.h"
#include "common/simt/report/source_site.h"

// The instructions behind a product of the checked CPU machine, for the running thread.

namespace simt {
inline namespace cpu {

/// wgmma.fence, wgmma.commit_group and wgmma.wait_group: a warp executes each as a whole.
void fence_products_of_warp(SourceSite site);
void commit_products_of_warp(SourceSite site);
void wait_products_of_warp(int allowed, SourceSite site);

/// wgmma.mma_async, which a warpgroup executes as a whole.
void begin_product(const ProductCall& call, const Block::WarpgroupInstruction& product);

}  // namespace cpu
}  // namespace simt
