#include "common/simt/matrix/wgmma_instructions.h"

#include "common/simt/matrix/warpgroup_products.h"

namespace simt {
inline namespace cpu {
namespace {

struct Wait {
    int allowed;
    SourceSite site;
};

constexpr Block::WarpInstruction kFence{"wgmma.fence", [](Block&, int, const std::array<const void*, 32>&) {}};
constexpr Block::WarpInstruction kCommit{"wgmma.commit_group",
                                         [](Block& block, int warp, const std::array<const void*, 32>& arguments) {
                                             const auto site = *static_cast<const SourceSite*>(arguments[0]);
                                             block.companion<WarpgroupProducts>().commit(warp, site);
                                         }};
constexpr Block::WarpInstruction kWait{"wgmma.wait_group",
                                       [](Block& block, int warp, const std::array<const void*, 32>& arguments) {
                                           const Wait& wait = *static_cast<const Wait*>(arguments[0]);
                                           block.companion<WarpgroupProducts>().wait(warp, wait.allowed, wait.site);
                                       }};

}  // namespace

void fence_products_of_warp(SourceSite site) {
    Block& block = Block::current();
    block.require_feature(Feature::wgmma, site);
    block.warp_instruction(kFence, nullptr, site);
}

void commit_products_of_warp(SourceSite site) {
    Block& block = Block::current();
    block.require_feature(Feature::wgmma, site);
    block.warp_instruction(kCommit, &site, site);
}

void wait_products_of_warp(int allowed, SourceSite site) {
    Block& block = Block::current();
    block.require_feature(Feature::wgmma, site);
    block.companion<WarpgroupProducts>().check_lost(site);
    const Wait wait{allowed, site};
    block.warp_instruction(kWait, &wait, site);
}

void begin_product(const ProductCall& call, const Block::WarpgroupInstruction& product) {
    Block& block = Block::current();
    block.require_feature(Feature::wgmma, call.site);
    block.companion<WarpgroupProducts>().check_ready(call);
    block.warpgroup_instruction(product, &call, call.site);
}

}  // namespace cpu
}  // namespace simt
